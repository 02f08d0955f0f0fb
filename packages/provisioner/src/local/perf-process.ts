/**
 * The load of a benchmark: `millrace perf` as a child of the worker. Its arguments bound its time, rate and
 * bytes. It has its own session, so that only the worker ends it early. A killed worker leaves it running
 * at most until its time is over; the next worker finds it by its topic, which no other process names.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { BenchmarkLoad, BenchmarkReport, BenchmarkWorkload } from "@millrace/domain";
import { type BenchmarkOptions, ProvisionError } from "../cluster-driver.ts";
import { JsonLines } from "../json-lines.ts";
import type { KafkaAddress } from "../kafka-address.ts";
import type { BrokerProgram } from "./broker-process.ts";
import { readPerfLine } from "./perf-output.ts";
import { isSameProcess, type ProcessIdentity, type ProcessTable } from "./process-table.ts";
import { replaceFile } from "./state-file.ts";

export interface PerfProcessOptions {
  /** The program starts here. */
  readonly home: string;
  readonly program: BrokerProgram;
  readonly table: ProcessTable;
  /** For connecting, for records in flight at the end, and for the report. */
  readonly marginMs?: number;
  /** From SIGTERM to SIGKILL. */
  readonly graceMs?: number;
}

/** Where a load goes. */
export interface PerfTarget {
  readonly kafka: KafkaAddress;
  /** Tells the program how to sign in; exists only while it runs. */
  readonly perfFile: string;
}

/** A topic may take 30 s to be created, and records in flight 40 s to be acknowledged and read. */
const MARGIN_MS = 75_000;
/** With more failed records than this part, figures describe the failure rather than the cluster. */
const ERRORS_SHARE_MAX = 0.01;
const GRACE_MS = 10_000;
/** After SIGKILL only the kernel's own work is left. */
const KILL_TIMEOUT_MS = 10_000;
const POLL_MS = 50;
/** End of the program's error output that is shown. */
const DETAIL_CHARACTERS_MAX = 2_000;
/** Producers that share the rate: enough that one client is not the limit. */
const PRODUCERS = 2;

const SUBCOMMANDS: Record<BenchmarkWorkload, string> = {
  produce: "produce",
  end_to_end: "end-to-end",
  catch_up: "catch-up",
};

export class PerfProcess {
  readonly #options: PerfProcessOptions;

  constructor(options: PerfProcessOptions) {
    this.#options = options;
  }

  /** Throws `benchmark_failed`, `aborted`. */
  async run(
    load: BenchmarkLoad,
    target: PerfTarget,
    { signal, onSample }: BenchmarkOptions,
  ): Promise<BenchmarkReport> {
    if (signal.aborted) throw aborted();
    await replaceFile(target.perfFile, clientProperties(target.kafka));
    try {
      return await this.#runChild(load, target, { signal, onSample });
    } finally {
      await rm(target.perfFile, { force: true });
    }
  }

  async #runChild(
    load: BenchmarkLoad,
    target: PerfTarget,
    { signal, onSample }: BenchmarkOptions,
  ): Promise<BenchmarkReport> {
    const child = this.#start(load, target);
    const timeout = AbortSignal.timeout(this.#timeoutMs(load));
    const output = new PerfOutput(child, onSample);
    const end = () => void this.#end(child);
    for (const each of [signal, timeout]) each.addEventListener("abort", end, { once: true });
    try {
      const code = await ended(child);
      if (signal.aborted) throw aborted();
      return output.report(code, timeout.aborted);
    } finally {
      signal.removeEventListener("abort", end);
    }
  }

  /** Ends what an earlier worker left. Throws `stop_failed`. */
  async end(topic: string): Promise<void> {
    const { table, graceMs = GRACE_MS } = this.#options;
    const { command } = this.#options.program;
    for (const found of table.findByCommand([...command, "perf"], ["--topic", topic])) {
      this.#signal(found, "SIGTERM");
      if (await this.#gone(found, graceMs)) continue;
      this.#signal(found, "SIGKILL");
      if (await this.#gone(found, KILL_TIMEOUT_MS)) continue;
      throw new ProvisionError("stop_failed", `the load's process ${found.pid} does not end`);
    }
  }

  #start(load: BenchmarkLoad, target: PerfTarget) {
    const { home, program } = this.#options;
    const [file, ...before] = program.command;
    return spawn(file, [...before, ...argumentsOf(load, target)], {
      cwd: home,
      detached: true,
      env: program.environment as NodeJS.ProcessEnv,
      stdio: ["ignore", "pipe", "pipe"],
    });
  }

  #timeoutMs({ warmUpSeconds, testSeconds }: BenchmarkLoad): number {
    return (warmUpSeconds + testSeconds) * 1_000 + (this.#options.marginMs ?? MARGIN_MS);
  }

  /** SIGTERM, which ends the load early, then SIGKILL. */
  async #end(child: ChildProcess): Promise<void> {
    child.kill("SIGTERM");
    const late = setTimeout(() => child.kill("SIGKILL"), this.#options.graceMs ?? GRACE_MS);
    await ended(child).catch(() => {});
    clearTimeout(late);
  }

  async #gone(process: ProcessIdentity, timeoutMs: number): Promise<boolean> {
    const deadline = performance.now() + timeoutMs;
    while (this.#isAlive(process)) {
      if (performance.now() >= deadline) return false;
      await sleep(POLL_MS);
    }
    return true;
  }

  #isAlive(identity: ProcessIdentity): boolean {
    return isSameProcess(identity, this.#options.table.find(identity.pid));
  }

  #signal(identity: ProcessIdentity, signal: "SIGTERM" | "SIGKILL"): void {
    if (!this.#isAlive(identity)) return;
    try {
      process.kill(identity.pid, signal);
    } catch (cause) {
      if (cause instanceof Error && "code" in cause && cause.code === "ESRCH") return;
      throw new ProvisionError("stop_failed", `cannot signal process ${identity.pid}`, { cause });
    }
  }
}

/** Reads the child's output while it runs. */
class PerfOutput {
  readonly #lines = new JsonLines();
  #report: BenchmarkReport | undefined;
  #failure: string | undefined;
  #errors = "";
  /** The last line that was neither a sample nor a report. */
  #unknown = "";

  constructor(child: ChildProcess, onSample: BenchmarkOptions["onSample"]) {
    child.stdout?.on("data", (bytes: Buffer) => {
      for (const line of this.#lines.push(bytes)) {
        const read = readPerfLine(line);
        if (read.kind === "sample") onSample(read.sample);
        else if (read.kind === "unknown") this.#unknown = read.why;
        else {
          this.#report = read.report;
          this.#failure = read.failure;
        }
      }
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#errors = `${this.#errors}${text}`.slice(-2 * DETAIL_CHARACTERS_MAX);
    });
  }

  /** Throws `benchmark_failed`. */
  report(code: number | null, timedOut: boolean): BenchmarkReport {
    const detail = this.#errors.slice(-DETAIL_CHARACTERS_MAX).trim();
    if (timedOut) throw failed("the load did not end in time", detail);
    if (this.#failure !== undefined) throw failed(`the load failed: ${this.#failure}`, detail);
    if (code === null) throw failed("the load failed: its program was killed", detail);
    if (this.#report !== undefined) return withFewErrors(this.#report, detail);
    if (code !== 0) throw failed(`the load failed: its program ended with code ${code}`, detail);
    throw failed("the load ended without a report", detail || this.#unknown);
  }
}

/** A few failed records are part of what was measured. Throws `benchmark_failed`. */
function withFewErrors(report: BenchmarkReport, detail: string): BenchmarkReport {
  for (const flow of [report.produced, report.consumed]) {
    if (flow === undefined) continue;
    const { records, errors } = flow;
    if (errors <= ERRORS_SHARE_MAX * (records + errors)) continue;
    throw failed(`the load failed: ${errors} of ${records + errors} records failed`, detail);
  }
  return report;
}

/** A Kafka client's configuration. It goes into a file, because everybody on the machine can read arguments. */
function clientProperties({ signIn }: KafkaAddress): string {
  if (signIn === undefined) return "security.protocol=PLAINTEXT\n";
  const module = "org.apache.kafka.common.security.scram.ScramLoginModule";
  const { user, password, rootCertificate } = signIn;
  return [
    "security.protocol=SASL_SSL",
    "sasl.mechanism=SCRAM-SHA-256",
    `sasl.jaas.config=${module} required username="${user}" password="${password}";`,
    "ssl.truststore.type=PEM",
    `ssl.truststore.certificates=${rootCertificate.trim().replaceAll("\n", "\\n")}`,
    "",
  ].join("\n");
}

function argumentsOf(load: BenchmarkLoad, { kafka, perfFile }: PerfTarget): string[] {
  const options: Record<string, string | number> = {
    "bootstrap-server": kafka.bootstrapServers,
    "command-config": perfFile,
    topic: load.topic,
    partitions: load.partitions,
    "record-size": load.recordSizeBytes,
    throughput: load.recordsPerSecond,
    warmup: load.warmUpSeconds,
    duration: load.testSeconds,
    "max-bytes": load.bytesMax,
    producers: PRODUCERS,
    acks: "all",
    progress: "json",
  };
  const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
  return ["perf", SUBCOMMANDS[load.workload], ...flags];
}

/** The exit code; null where a signal ended it. Throws `benchmark_failed` where it did not start. */
async function ended(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
  return await new Promise((resolve, reject) => {
    child.once("close", (code) => resolve(code));
    child.once("error", (cause) => {
      const message = "cannot run the program that makes the load";
      reject(new ProvisionError("benchmark_failed", message, { cause, detail: String(cause) }));
    });
  });
}

function failed(message: string, detail: string): ProvisionError {
  return new ProvisionError("benchmark_failed", message, { detail });
}

function aborted(): ProvisionError {
  return new ProvisionError("aborted", "the load was aborted");
}
