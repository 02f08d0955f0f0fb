import { expect, test } from "vitest";
import {
  OPERATION_KINDS,
  type OperationStep,
  progressOf,
  type StepState,
  stepsOf,
} from "./operation.ts";

function steps(...states: StepState[]): OperationStep[] {
  return stepsOf("cluster.create").map((plan, index) => ({
    name: plan.name,
    state: states[index] ?? "PENDING",
    attempt: 1,
    startedAt: undefined,
    endedAt: undefined,
    message: undefined,
  }));
}

test("progress grows with each complete step and reaches 100 only on success", () => {
  const seen: number[] = [];
  const states: StepState[] = [];
  for (const _ of stepsOf("cluster.create")) {
    seen.push(
      progressOf({ kind: "cluster.create", phase: "RUNNING", steps: steps(...states) }).percent,
    );
    states.push("SUCCEEDED");
  }
  seen.push(
    progressOf({ kind: "cluster.create", phase: "RUNNING", steps: steps(...states) }).percent,
  );
  expect(seen).toEqual([...seen].sort((a, b) => a - b));
  expect(new Set(seen).size).toBe(seen.length);
  expect(seen[0]).toBe(0);
  expect(seen.at(-1)).toBe(99);
  expect(progressOf({ kind: "cluster.create", phase: "SUCCEEDED", steps: [] })).toEqual({
    percent: 100,
    etaSeconds: undefined,
  });
});

test("a skipped step counts as complete, a failed one does not", () => {
  const skipped = progressOf({ kind: "cluster.create", phase: "RUNNING", steps: steps("SKIPPED") });
  const failed = progressOf({ kind: "cluster.create", phase: "FAILED", steps: steps("FAILED") });
  expect(skipped.percent).toBeGreaterThan(0);
  expect(failed).toEqual({ percent: 0, etaSeconds: undefined });
});

test("step names are unique within an operation", () => {
  for (const kind of OPERATION_KINDS) {
    const names = stepsOf(kind).map((step) => step.name);
    expect(new Set(names).size).toBe(names.length);
  }
});
