import type { Operation } from "@millrace/contract";
import { expect, test } from "vitest";
import { operation } from "./operation.fixture.ts";
import { canCancel, canRetry, isDeletion, rejectionText, stateText } from "./operation-words.ts";

const ended = (phase: Operation["phase"], at: string) =>
  operation({ phase, done: true, ended_at: `2026-11-21T12:${at}.000Z` });

test("an operation says how it stands", () => {
  expect(stateText(operation({}))).toBe("40 %, about 3 min left");
  expect(stateText(operation({ phase: "WAITING" }))).toBe("waiting for approval");
  expect(stateText(operation({ cancel_requested_at: "2026-11-21T12:00:05.000Z" }))).toBe(
    "cancelling",
  );
  expect(stateText(ended("SUCCEEDED", "00:08"))).toBe("done in 8.0 s");
  expect(stateText(ended("SUCCEEDED", "04:00"))).toBe("done in 4 min");
  expect(stateText(ended("FAILED", "00:08"))).toBe("failed");
  expect(stateText(ended("CANCELLED", "00:08"))).toBe("cancelled");
});

test("what goes on can be cancelled once, what has ended early can be retried", () => {
  expect(canCancel(operation({}))).toBe(true);
  expect(canCancel(operation({ phase: "WAITING" }))).toBe(true);
  expect(canCancel(operation({ cancel_requested_at: "2026-11-21T12:00:05.000Z" }))).toBe(false);
  expect(canCancel(operation({ kind: "cluster.delete" }))).toBe(false);
  expect(canCancel(ended("SUCCEEDED", "00:08"))).toBe(false);
  expect(canRetry(ended("FAILED", "00:08"), "op_test")).toBe(true);
  expect(canRetry(ended("CANCELLED", "00:08"), "op_test")).toBe(true);
  expect(canRetry(ended("SUCCEEDED", "00:08"), "op_test")).toBe(false);
  expect(canRetry(operation({}), "op_test")).toBe(false);
});

test("what another operation came after is not retried", () => {
  expect(canRetry(ended("FAILED", "00:08"), "op_later")).toBe(false);
  expect(canRetry(ended("FAILED", "00:08"), undefined)).toBe(false);
});

test("a deletion is one, also when it is retried", () => {
  expect(isDeletion({ kind: "cluster.delete" })).toBe(true);
  expect(isDeletion({ kind: "cluster.purge" })).toBe(true);
  expect(isDeletion({ kind: "cluster.update" })).toBe(false);
});

test("who is asked to approve a change learns what becomes of it without", () => {
  expect(rejectionText(operation({ kind: "cluster.update" }))).toContain(
    "previous settings are restored",
  );
  expect(rejectionText(operation({ kind: "cluster.create" }))).toContain("nothing is created");
});

test("nobody is told that nothing is changed where an attempt before has changed something", () => {
  const step = (name: string, attempt: number): Operation["steps"][number] => ({
    name,
    title: name,
    state: attempt > 0 ? "SUCCEEDED" : "PENDING",
    attempt,
    started_at: null,
    ended_at: null,
    message: null,
  });
  for (const kind of ["cluster.create", "cluster.update", "cluster.resume"] as const) {
    const waiting = (applied: number) =>
      operation({
        kind,
        phase: "WAITING",
        steps: [step("plan", 1 + applied), step("approve", 1 + applied), step("apply", applied)],
      });
    expect(rejectionText(waiting(1))).toContain("already changed resources");
    expect(rejectionText(waiting(1))).toContain("requested settings stay");
    expect(rejectionText(waiting(0))).toBe(rejectionText(operation({ kind })));
    expect(rejectionText(waiting(0))).not.toContain("already changed");
  }
});
