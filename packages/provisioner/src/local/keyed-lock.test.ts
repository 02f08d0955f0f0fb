import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { KeyedLock } from "./keyed-lock.ts";

test("work of one key runs in order and never overlaps, failures included", async () => {
  const lock = new KeyedLock();
  const log: string[] = [];
  const work = (name: string, fails = false) =>
    lock.run("key", async () => {
      log.push(`${name} begins`);
      await sleep(5);
      log.push(`${name} ends`);
      if (fails) throw new Error(name);
    });
  const results = await Promise.allSettled([work("a"), work("b", true), work("c")]);
  expect(results.map((result) => result.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(log).toEqual(["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]);
});

test("work of different keys runs concurrently", async () => {
  const lock = new KeyedLock();
  let release = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const blocked = lock.run("a", () => gate);
  await lock.run("b", async () => release());
  await blocked;
});
