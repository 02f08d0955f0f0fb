import { expect, test } from "vitest";
import { RESTART_WINDOW_MS, RestartBackoff } from "./restart-backoff.ts";

const options = { firstMs: 1_000, maxMs: 30_000, healthyAfterMs: 30_000 };

test("the first restart comes at once, the next ones with increasing waits up to the bound", () => {
  const backoff = new RestartBackoff(options);
  let now = 0;
  const waits = Array.from({ length: 8 }, () => {
    const from = now;
    while (!backoff.mayStart(now)) now += 1;
    backoff.started(now);
    return now - from;
  });
  expect(waits).toEqual([0, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
});

test("staying ready resets the backoff, flapping does not", () => {
  const backoff = new RestartBackoff(options);
  backoff.started(0);
  backoff.started(1_000);
  backoff.ready(2_000);
  backoff.ready(20_000);
  backoff.notReady();
  backoff.ready(21_000);
  backoff.ready(40_000);
  expect(backoff.starts).toBe(2);
  backoff.ready(51_000);
  expect(backoff.starts).toBe(0);
  expect(backoff.mayStart(51_000)).toBe(true);
});

test("recent starts are those of the window, healthy or not", () => {
  const backoff = new RestartBackoff(options);
  backoff.started(0);
  backoff.started(60_000);
  backoff.ready(70_000);
  backoff.ready(200_000);
  expect([backoff.starts, backoff.recentStarts(200_000)]).toEqual([0, 2]);
  expect(backoff.recentStarts(RESTART_WINDOW_MS)).toBe(1);
  expect(backoff.recentStarts(2 * RESTART_WINDOW_MS)).toBe(0);
});
