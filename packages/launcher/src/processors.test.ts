import { expect, test } from "vitest";
import { busyPercent, processorTimes } from "./processors.ts";

test("the busy part is what is not idle", () => {
  expect(busyPercent({ idle: 100, all: 1_000 }, { idle: 350, all: 2_000 })).toBe(75);
});

test("no time between two moments is no division by zero", () => {
  expect(busyPercent({ idle: 1, all: 2 }, { idle: 1, all: 2 })).toBe(0);
});

test("a loop keeps a processor busy", () => {
  const from = processorTimes();
  for (const until = Date.now() + 200; Date.now() < until; );
  const to = processorTimes();
  expect(to.all - from.all).toBeGreaterThan(to.idle - from.idle);
});
