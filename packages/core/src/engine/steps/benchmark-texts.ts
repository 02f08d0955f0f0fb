/** What the log of a benchmark's operation says, in words. */
import type {
  BenchmarkFlow,
  BenchmarkLoad,
  BenchmarkReport,
  BenchmarkSample,
  BenchmarkWorkload,
} from "@millrace/domain";
import type { StepContext } from "../workflow.ts";

const MIB = 1024 ** 2;

const WORKLOADS: Record<BenchmarkWorkload, string> = {
  produce: "Producing",
  end_to_end: "Producing and consuming",
  catch_up: "Writing a backlog and reading it back at",
};

export function loadText(load: BenchmarkLoad): string {
  const { recordsPerSecond, recordSizeBytes, partitions, warmUpSeconds, testSeconds } = load;
  return (
    `${WORKLOADS[load.workload]} ${mebibytes(recordsPerSecond * recordSizeBytes)}/s in records of ` +
    `${recordSizeBytes.toLocaleString("en")} bytes on ${partitions} partitions for ` +
    `${warmUpSeconds + testSeconds} s, of which ${warmUpSeconds} s warm-up; at most ` +
    `${mebibytes(load.bytesMax)}.`
  );
}

export function sampleText({ elapsedSeconds, phase, ...sample }: BenchmarkSample): string {
  return `${Math.round(elapsedSeconds)} s, ${phase.replace("_", "-")}: ${flowsText(sample)}`;
}

export function reportText({ durationSeconds, ...report }: BenchmarkReport): string {
  return `Measured for ${Math.round(durationSeconds)} s: ${flowsText(report)}.`;
}

function flowsText({ produced, consumed }: Pick<BenchmarkReport, "produced" | "consumed">): string {
  const parts = [
    ...(produced ? [`produced ${flowText(produced)}`] : []),
    ...(consumed ? [`consumed ${flowText(consumed)}`] : []),
  ];
  return parts.length === 0 ? "nothing yet" : parts.join("; ");
}

function flowText({ bytesPerSecond, latencyMs, errors }: BenchmarkFlow): string {
  const latency = latencyMs ? `, p99 ${latencyMs.p99.toFixed(1)} ms` : "";
  return `${mebibytes(bytesPerSecond)}/s${latency}${errors > 0 ? `, ${errors} errors` : ""}`;
}

function mebibytes(bytes: number): string {
  return `${(bytes / MIB).toLocaleString("en", { maximumFractionDigits: 1 })} MiB`;
}

/** Writes a line to the operation's log. */
export function tell({ tools, onEvent }: StepContext, message: string): void {
  onEvent({ at: tools.clock.now().getTime(), level: "info", kind: "run", message });
}
