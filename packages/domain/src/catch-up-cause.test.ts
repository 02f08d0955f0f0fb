import { expect, test } from "vitest";
import type { CatchUpMode } from "./catch-up.ts";
import { catchUpCause, type ReadPressure } from "./catch-up-cause.ts";

const NONE: ReadPressure = {
  ingressWaiting: 0,
  egressWaiting: 0,
  bucketReadsPerSecond: 20,
  bucketFailedPerSecond: 0.1,
  bucketSecondsMean: 0.05,
};

function causeOf(modes: readonly CatchUpMode[], pressure: Partial<ReadPressure> = {}) {
  const partitions = modes.map((mode) => ({ mode }));
  const group = { mode: "falling_behind", readBytesPerSecond: 1_000, partitions } as const;
  return catchUpCause(group, { ...NONE, ...pressure });
}

test.each([
  ["readers wait for what comes in", { ingressWaiting: 1.5, egressWaiting: 0.5 }, "ingress_limit"],
  ["readers wait for what goes out", { ingressWaiting: 0, egressWaiting: 0.3 }, "egress_limit"],
  ["the limit comes before the bucket", { egressWaiting: 2, bucketSecondsMean: 3 }, "egress_limit"],
  ["the bucket is slow", { bucketSecondsMean: 0.8 }, "bucket"],
  ["the bucket fails", { bucketFailedPerSecond: 2 }, "bucket"],
  ["nothing in the broker delays it", { egressWaiting: 0.1 }, "consumer"],
  [
    "the bucket is not read at all",
    { bucketReadsPerSecond: 0, bucketSecondsMean: undefined },
    "consumer",
  ],
] as const)("%s", (_, pressure, cause) => {
  expect(causeOf(["falling_behind", "falling_behind"], pressure)).toBe(cause);
});

test("a few partitions that do not keep up are skew, most of them are not", () => {
  expect(causeOf(["falling_behind", "tail", "tail", "catch_up"])).toBe("skew");
  expect(causeOf(["falling_behind", "falling_behind", "falling_behind", "tail"])).toBe("consumer");
  expect(causeOf(["falling_behind"])).toBe("consumer");
  expect(causeOf(["falling_behind", "idle", "idle"])).toBe("consumer");
});

test("a group that does not fall behind has no cause", () => {
  const pressure = { ...NONE, egressWaiting: 5 };
  for (const mode of ["tail", "catch_up", "idle"] as const) {
    const group = { mode, readBytesPerSecond: 1_000, partitions: [{ mode }] };
    expect(catchUpCause(group, pressure)).toBeUndefined();
  }
});

test("a group that reads nothing does not wait for what others wait for", () => {
  const mode = "falling_behind";
  const group = { mode, readBytesPerSecond: 0, partitions: [{ mode }] } as const;
  expect(catchUpCause(group, { ...NONE, egressWaiting: 5 })).toBe("consumer");
});
