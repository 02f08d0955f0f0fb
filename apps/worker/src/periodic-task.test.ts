import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { PeriodicTask } from "./periodic-task.ts";

test("runs never overlap; failures are reported and do not stop the task", async () => {
  let running = 0;
  let runs = 0;
  const errors: unknown[] = [];
  const task = new PeriodicTask({
    intervalMs: 1,
    run: async () => {
      running += 1;
      runs += 1;
      expect(running).toBe(1);
      await sleep(2);
      running -= 1;
      if (runs % 2 === 0) throw new Error("every second run");
    },
    onError: (error) => errors.push(error),
  });
  task.start();
  task.start();
  while (runs < 6) await sleep(1);
  await task.stop();
  expect(errors.length).toBeGreaterThanOrEqual(2);
  const after = runs;
  await sleep(10);
  expect(runs).toBe(after);
});

test("stop aborts the current run and waits for its end", async () => {
  let ended = false;
  const task = new PeriodicTask({
    intervalMs: 60_000,
    run: async (signal) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      ended = true;
    },
    onError: () => {},
  });
  task.start();
  await task.stop();
  expect(ended).toBe(true);
});
