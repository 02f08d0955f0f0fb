import { expect, test } from "vitest";
import { type BenchmarkReport, keptUp } from "./benchmark.ts";
import type { BenchmarkRequest } from "./benchmark-load.ts";

const MIB = 1024 ** 2;
const request: BenchmarkRequest = {
  ...{ durationSeconds: 10, recordSizeBytes: 1_024, bytesPerSecond: undefined, partitions: 4 },
  workload: "produce",
};
const benchmark = {
  id: "bmk_01JD0000000000000000000000",
  request,
  bytesPerSecond: 64 * MIB,
} as const;

/** Of eight seconds at this rate. */
function report(recordsPerSecond: number, unsentRecords: number): BenchmarkReport {
  const bytesPerSecond = recordsPerSecond * 1_024;
  const totals = { records: 8 * recordsPerSecond, bytes: 8 * bytesPerSecond, errors: 0 };
  return {
    durationSeconds: 8,
    produced: { ...totals, recordsPerSecond, bytesPerSecond, latencyMs: undefined },
    ...{ consumed: undefined, endToEndLatencyMs: undefined, catchUp: undefined, unsentRecords },
  };
}

test.each([
  ["at its rate, with records in flight at the end", 65_536, 5, true],
  ["at 96 % of its rate", 62_915, 0, true],
  ["at 94 % of its rate", 61_604, 0, false],
  ["with records that were never sent", 65_536, 82_651, false],
])("a load %s", (_, rate, unsent, expected) => {
  expect(keptUp(benchmark, report(rate, unsent))).toBe(expected);
});

test("small records, whose number per second is bounded, are compared by that bound", () => {
  const small = { ...benchmark, request: { ...request, recordSizeBytes: 1 } };
  expect(keptUp(small, report(1_000_000, 0))).toBe(true);
});
