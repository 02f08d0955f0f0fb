import { expect, test } from "vitest";
import { timedLine } from "./terminal.ts";

test("colour codes go to a terminal only", () => {
  const at = new Date("2026-11-22T10:00:05Z");
  expect(timedLine(at, "ready", false)).toBe("[10:00:05] ready");
  expect(timedLine(at, "ready", true)).toBe("\u001b[2m[10:00:05]\u001b[0m ready");
});
