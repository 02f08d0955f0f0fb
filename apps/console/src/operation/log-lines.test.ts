import type { OperationEvent } from "@millrace/contract";
import { describe, expect, it } from "vitest";
import { LOG_LINES_MAX, lineText, logText, withEvent } from "./log-lines.ts";

function line(seq: number, event: Partial<OperationEvent> = {}): OperationEvent {
  return {
    operation_id: "op_test",
    seq,
    at: "2026-11-21T12:00:00.000Z",
    kind: "log",
    step: "apply",
    message: `line ${seq}`,
    level: "info",
    address: null,
    ...event,
  };
}

function collected(...seqs: number[]): number[] {
  const none: readonly OperationEvent[] = [];
  return seqs.reduce((lines, seq) => withEvent(lines, line(seq)), none).map(({ seq }) => seq);
}

describe("a log", () => {
  it("has each line once and in order, however they arrive", () => {
    expect(collected(1, 2, 3)).toEqual([1, 2, 3]);
    expect(collected(1, 3, 2, 3, 1)).toEqual([1, 2, 3]);
  });

  it("keeps the newest lines where there are too many", () => {
    const all = Array.from({ length: LOG_LINES_MAX + 5 }, (_, n) => n + 1);
    const kept = collected(...all);
    expect(kept).toHaveLength(LOG_LINES_MAX);
    expect(kept.at(0)).toBe(6);
    expect(kept.at(-1)).toBe(LOG_LINES_MAX + 5);
  });

  it("says of a step what became of it, and why", () => {
    const step = (kind: OperationEvent["kind"], message = "") =>
      lineText(line(1, { kind, step: "plan", message }));
    expect(step("step.started")).toBe("plan: started");
    expect(step("step.skipped", "nothing to do")).toBe("plan: skipped, nothing to do");
    expect(step("step.failed", "no such volume")).toBe("plan: failed, no such volume");
    expect(step("operation.approved")).toBe("approved");
    expect(lineText(line(1))).toBe("line 1");
  });

  it("is text with one line each", () => {
    expect(logText([line(1, { address: "aws_vpc.main", message: "one\ntwo" })])).toBe(
      "2026-11-21T12:00:00.000Z  apply  aws_vpc.main  one two",
    );
  });
});
