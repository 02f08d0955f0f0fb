import { expect, test } from "vitest";
import { TokenBuckets } from "./token-buckets.ts";

function bucketsAt(start = 0) {
  const clock = { now: start };
  const buckets = new TokenBuckets({ capacity: 10, perSecond: 2 }, 3, () => clock.now);
  return { clock, buckets };
}

test("a burst is served, then as much as flows back", () => {
  const { clock, buckets } = bucketsAt();
  expect(buckets.take("a", 10)).toMatchObject({ taken: true, remaining: 0, fullInSeconds: 5 });
  expect(buckets.take("a")).toMatchObject({ taken: false, retryInSeconds: 1 });
  clock.now = 500;
  expect(buckets.take("a")).toMatchObject({ taken: true, remaining: 0 });
  clock.now = 60_000;
  expect(buckets.take("a", 4)).toMatchObject({ taken: true, remaining: 6 });
});

test("who is refused pays nothing", () => {
  const { buckets } = bucketsAt();
  buckets.take("a", 8);
  for (let round = 0; round < 5; round += 1) {
    expect(buckets.take("a", 3)).toMatchObject({ taken: false, remaining: 2 });
  }
  expect(buckets.take("a", 2).taken).toBe(true);
});

test("one key's burst is not another's", () => {
  const { buckets } = bucketsAt();
  buckets.take("a", 10);
  expect(buckets.take("b").taken).toBe(true);
});

test("a request of more than a bucket holds needs a full one", () => {
  const { buckets } = bucketsAt();
  expect(buckets.take("a", 1_000)).toMatchObject({ taken: true, remaining: 0 });
  expect(buckets.take("a", 1_000)).toMatchObject({ taken: false, retryInSeconds: 5 });
});

test("keys have a bound, and full buckets are forgotten", () => {
  const { clock, buckets } = bucketsAt();
  for (let key = 0; key < 100; key += 1) buckets.take(`k${key}`);
  expect(buckets.size).toBe(3);
  clock.now = 5_000;
  buckets.take("a");
  buckets.take("a");
  expect(buckets.size).toBe(1);
});
