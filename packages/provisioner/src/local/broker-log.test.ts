import { expect, test } from "vitest";
import { exitIn } from "./broker-log.ts";

const LINE = "2026-01-01T00:00:00Z  INFO millrace_broker::broker: the broker is ready";
const EXIT = "millrace: exit 79: the task upload panicked: out of order";

test("the last line has the broker's exit", () => {
  const exit = { code: 79, reason: "the task upload panicked: out of order" };
  expect(exitIn(`${LINE}\n${EXIT}`)).toEqual(exit);
  expect(exitIn(`${LINE}\n${EXIT}\n${LINE}`)).toEqual(exit);
});

test("a broker that was asked to stop says so", () => {
  const stopped = "2026-01-01T00:00:00Z  INFO millrace_broker::broker: stopped storage=Done";
  const exit = { code: 0, reason: "it was asked to stop" };
  expect(exitIn(`${LINE}\n${stopped}`)).toEqual(exit);
  expect(exitIn(`${LINE}\n${stopped}\n${LINE}\n${LINE}\n${LINE}`)).not.toEqual(exit);
});

test("a broker that was killed has no such line, and the one of an earlier run does not count", () => {
  const killed = { code: undefined, reason: "its process was killed or stopped" };
  expect(exitIn(LINE)).toEqual(killed);
  expect(exitIn(`${EXIT}\n${`${LINE}\n`.repeat(3)}`.trimEnd())).toEqual(killed);
});

test("a broker that never ran has no exit", () => {
  expect(exitIn("")).toBeUndefined();
});

test("a long reason is cut", () => {
  const { reason } = exitIn(`millrace: exit 78: ${"x".repeat(3_000)}`) ?? { reason: "" };
  expect(reason).toHaveLength(401);
});
