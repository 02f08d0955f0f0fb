import { LeaseLost, type LogLine } from "@millrace/db";
import type { RunEvent } from "@millrace/provisioner";
import { beforeEach, expect, test } from "vitest";
import { OperationLog } from "./operation-log.ts";

const FENCE = { operationId: "op_1", attempt: 1 } as const;

let written: LogLine[];
let errors: unknown[];
let failure: Error | undefined;
let log: OperationLog;

beforeEach(() => {
  written = [];
  errors = [];
  failure = undefined;
  const journal = {
    log: async (_fence: unknown, lines: readonly LogLine[]) => {
      if (failure) throw failure;
      written.push(...lines);
    },
  };
  log = new OperationLog(journal, FENCE, (error) => errors.push(error));
});

function event(message: string, changes: Partial<RunEvent> = {}): RunEvent {
  return { at: 1_000, level: "info", kind: "run", message, ...changes };
}

test("lines are written together, in order, with their step", async () => {
  log.add("plan", event("one"));
  log.add("apply", event("two", { level: "warning", address: "aws_vpc.main" }));
  expect(written).toEqual([]);
  await log.flush();
  expect(written).toMatchObject([
    { step: "plan", message: "one", level: "info" },
    { step: "apply", message: "two", level: "warning", address: "aws_vpc.main" },
  ]);
});

test("of a resource that takes long, one line a minute is kept", async () => {
  for (let second = 0; second <= 130; second += 10) {
    const at = second * 1_000;
    log.add("apply", event(`still at it, ${second} s`, { kind: "progress", address: "a", at }));
    log.add("apply", event("the other", { kind: "progress", address: "b", at }));
  }
  await log.flush();
  expect(written.filter(({ address }) => address === "a")).toHaveLength(3);
  expect(written.filter(({ address }) => address === "b")).toHaveLength(3);
});

test("where lines come faster than they are written, the oldest go, and that is told", async () => {
  for (let line = 0; line < 1_200; line += 1) log.add("apply", event(`line ${line}`));
  await log.flush();
  expect(written).toHaveLength(1_001);
  expect(written[0]).toMatchObject({ level: "warning", message: expect.stringContaining("200 ") });
  expect(written.at(-1)?.message).toBe("line 1199");
});

test("a log that cannot be written is told, and stops nothing; a lost lease is no fault", async () => {
  failure = new Error("the database is gone");
  log.add("plan", event("lost"));
  await log.flush();
  failure = new LeaseLost("taken over");
  log.add("plan", event("lost too"));
  await log.flush();
  expect(errors).toHaveLength(1);
  failure = undefined;
  log.add("plan", event("written"));
  await log.flush();
  expect(written.map(({ message }) => message)).toEqual(["written"]);
});
