import { expect, test } from "vitest";
import { databaseFixture } from "./fixture.ts";

const fixture = databaseFixture();
const MINUTE_MS = 60_000;

test("a window counts until it is over", async () => {
  const { rateLimits } = fixture.db;
  const begun = 10 * MINUTE_MS;
  expect(await rateLimits.current("a", MINUTE_MS, begun)).toBe(0);
  expect(await rateLimits.count("a", MINUTE_MS, begun)).toBe(1);
  expect(await rateLimits.count("a", MINUTE_MS, begun + 1)).toBe(2);
  expect(await rateLimits.current("a", MINUTE_MS, begun + MINUTE_MS - 1)).toBe(2);
  expect(await rateLimits.current("a", MINUTE_MS, begun + MINUTE_MS)).toBe(0);
  expect(await rateLimits.count("a", MINUTE_MS, begun + MINUTE_MS)).toBe(1);
});

test("counts of windows that are over are removed, others stay", async () => {
  const { rateLimits } = fixture.db;
  await rateLimits.count("old", MINUTE_MS, 1_000 * MINUTE_MS);
  await rateLimits.count("new", MINUTE_MS, 1_002 * MINUTE_MS);
  await rateLimits.deleteBefore(1_001 * MINUTE_MS);
  expect(await rateLimits.current("old", MINUTE_MS, 1_000 * MINUTE_MS)).toBe(0);
  expect(await rateLimits.current("new", MINUTE_MS, 1_002 * MINUTE_MS)).toBe(1);
});
