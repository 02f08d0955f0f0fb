import { type Operation, type StepName, stepsOf } from "@millrace/domain";
import { BENCHMARK_STEPS, cleanUpBenchmark } from "./steps/benchmark-steps.ts";
import { BROKER_STEPS } from "./steps/broker-steps.ts";
import { PLAN_STEPS } from "./steps/plan-steps.ts";
import { RECORD_STEPS } from "./steps/record-steps.ts";
import { USER_STEPS } from "./steps/user-steps.ts";
import type { Step, Workflow } from "./workflow.ts";

const STEPS: Record<StepName, Step> = {
  ...PLAN_STEPS,
  ...BROKER_STEPS,
  ...RECORD_STEPS,
  ...BENCHMARK_STEPS,
  ...USER_STEPS,
};

/** The workflow of an operation: the domain names its steps, the engine implements them. */
export function workflowOf({ kind, provider }: Pick<Operation, "kind" | "provider">): Workflow {
  const steps = stepsOf(kind, provider).map(({ name }) => ({ name, ...STEPS[name] }));
  if (kind === "cluster.benchmark") return { steps, cleanUp: cleanUpBenchmark };
  // A new cluster that failed is looked at and deleted, not used: its broker must not stay behind.
  // Beyond this machine nothing is undone: a retry goes on with what was made, or it is deleted.
  if (kind !== "cluster.create" || provider !== "local") return { steps };
  return { steps, cleanUp: ({ driver, cluster }) => driver.stop(cluster.id) };
}
