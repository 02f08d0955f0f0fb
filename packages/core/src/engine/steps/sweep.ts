import type { SweepReport } from "@millrace/provisioner";
import type { StepContext } from "../workflow.ts";
import { deployment, runOptions } from "./deployment.ts";

/** Looks for what exists of the cluster and no record knows, and says in the log what became of it. */
export async function sweepAndTell(context: StepContext): Promise<SweepReport> {
  const report = await context.driver.sweep(deployment(context), runOptions(context));
  const tell = (what: string, level: "info" | "warning", found: SweepReport["left"]) => {
    for (const { id, address } of found) {
      const at = context.tools.clock.now().getTime();
      const about = address === undefined ? {} : { address };
      context.onEvent({ at, level, kind: "run", message: `${what} ${id}`, ...about });
    }
  };
  tell("imported:", "info", report.imported);
  tell("removed, not part of the spec:", "info", report.removed);
  tell("left alone, it may hold data:", "warning", report.left);
  return report;
}
