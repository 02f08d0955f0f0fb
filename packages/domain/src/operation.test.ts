import { describe, expect, test } from "vitest";
import {
  OPERATION_KINDS,
  type OperationStep,
  progressOf,
  type StepState,
  stepsOf,
} from "./operation.ts";

function steps(...states: StepState[]): OperationStep[] {
  return stepsOf("cluster.create", "local").map((plan, index) => ({
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
  for (const _ of stepsOf("cluster.create", "local")) {
    seen.push(
      progressOf({
        kind: "cluster.create",
        provider: "local",
        phase: "RUNNING",
        steps: steps(...states),
      }).percent,
    );
    states.push("SUCCEEDED");
  }
  seen.push(
    progressOf({
      kind: "cluster.create",
      provider: "local",
      phase: "RUNNING",
      steps: steps(...states),
    }).percent,
  );
  expect(seen).toEqual([...seen].sort((a, b) => a - b));
  expect(new Set(seen).size).toBe(seen.length);
  expect(seen[0]).toBe(0);
  expect(seen.at(-1)).toBe(99);
  expect(
    progressOf({ kind: "cluster.create", provider: "local", phase: "SUCCEEDED", steps: [] }),
  ).toEqual({
    percent: 100,
    etaSeconds: undefined,
  });
});

test("a skipped step counts as complete, a failed one does not", () => {
  const skipped = progressOf({
    kind: "cluster.create",
    provider: "local",
    phase: "RUNNING",
    steps: steps("SKIPPED"),
  });
  const failed = progressOf({
    kind: "cluster.create",
    provider: "local",
    phase: "FAILED",
    steps: steps("FAILED"),
  });
  expect(skipped.percent).toBeGreaterThan(0);
  expect(failed).toEqual({ percent: 0, etaSeconds: undefined });
});

test("a load counts by the time that it has run, and never as more than its own", () => {
  const startedAt = new Date("2026-11-22T10:00:00Z");
  const at = (seconds: number) => {
    const [check, topic, load] = stepsOf("cluster.benchmark", "local").map(({ name }) => ({
      ...{ name, state: "SUCCEEDED" as StepState, attempt: 1, startedAt },
      ...{ endedAt: undefined, message: undefined },
    }));
    return progressOf(
      {
        ...{ kind: "cluster.benchmark", provider: "local", phase: "RUNNING" },
        steps: [check!, topic!, { ...load!, state: "RUNNING" }],
        parameters: { benchmark: { id: "bmk_x", durationSeconds: 100 } },
      },
      new Date(startedAt.getTime() + seconds * 1_000),
    );
  };
  expect(at(0)).toEqual({ percent: 0, etaSeconds: 101 });
  expect(at(50)).toEqual({ percent: 50, etaSeconds: 51 });
  expect(at(1_000)).toEqual({ percent: 99, etaSeconds: 1 });
});

test("an operation that waits for approval gives no time at which it ends", () => {
  const waiting = progressOf({
    kind: "cluster.create",
    provider: "local",
    phase: "WAITING",
    steps: steps("SUCCEEDED", "SUCCEEDED"),
  });
  expect(waiting.percent).toBeGreaterThan(0);
  expect(waiting.etaSeconds).toBeUndefined();
});

describe.each(["local", "aws"] as const)("operations on %s", (provider) => {
  test("have steps whose names are unique", () => {
    for (const kind of OPERATION_KINDS) {
      const names = stepsOf(kind, provider).map((step) => step.name);
      expect(names.length).toBeGreaterThan(0);
      expect(new Set(names).size).toBe(names.length);
    }
  });

  test("apply what was planned and approved before, in that order", () => {
    for (const kind of OPERATION_KINDS) {
      const names = stepsOf(kind, provider).map((step) => step.name);
      if (!names.includes("approve")) continue;
      expect(names.indexOf("plan")).toBe(names.indexOf("approve") - 1);
      expect(names.indexOf("approve")).toBeLessThan(names.length - 1);
    }
  });
});
