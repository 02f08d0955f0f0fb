import { describe, expect, it, test } from "vitest";
import {
  backlogText,
  bandText,
  byUrgency,
  etaText,
  percentDone,
  progressText,
  summaryText,
} from "./backlog.ts";
import { groupOf, partitionOf } from "./catch-up.fixture.ts";

test.each([
  ["catch_up", 240, "about 4 min"],
  ["catch_up", 0.2, "about 1 s"],
  ["catch_up", null, "estimating…"],
  ["falling_behind", null, "falling behind"],
  ["tail", 0, "up to date"],
  ["idle", null, "idle"],
] as const)("a group that is in %s with %s seconds left is %s", (mode, eta_seconds, text) => {
  expect(etaText(groupOf({ mode, eta_seconds }))).toBe(text);
});

test("a backlog that grows meanwhile has no time left to be told", () => {
  const growing = groupOf({ eta_seconds: null, drain_bytes_per_second: -1 });
  expect(etaText(growing)).toBe("backlog growing");
});

test.each([
  ["catch_up", 200, 320, "3 min to 5 min"],
  ["catch_up", 200, null, "at least 3 min"],
  ["catch_up", null, null, undefined],
  ["tail", 0, 0, undefined],
] as const)(
  "a group in %s that takes %s to %s seconds has the bounds %s",
  (mode, low, high, text) => {
    expect(bandText({ mode, eta_low_seconds: low, eta_high_seconds: high })).toBe(text);
  },
);

describe("a backlog", () => {
  it("is told in bytes and in every record", () => {
    expect(backlogText(groupOf())).toBe("1.5 GiB · 1,234,567 records");
    expect(backlogText(groupOf({ backlog_records: "1", backlog_bytes: "80" }))).toBe(
      "80 B · 1 record",
    );
    expect(backlogText(groupOf({ backlog_records: "9223372036854775807" }))).toContain(
      "9,223,372,036,854,775,807",
    );
  });

  it("has a share that is done where the broker knows it", () => {
    expect(percentDone(groupOf({ progress: 0.62 }))).toBeCloseTo(62);
    expect(percentDone(groupOf({ progress: 1.3 }))).toBe(100);
    expect(percentDone(groupOf({ progress: -0.1 }))).toBe(0);
    expect(percentDone(groupOf({ progress: null }))).toBeUndefined();
    expect(percentDone(groupOf({ progress: null, mode: "tail" }))).toBe(100);
  });

  it("is said in one sentence", () => {
    expect(progressText(groupOf())).toBe(
      "62 % done, 1.5 GiB · 1,234,567 records to go, about 4 min",
    );
    expect(progressText(groupOf({ progress: null, mode: "falling_behind" }))).toMatch(
      /^1\.5 GiB .* falling behind$/,
    );
  });
});

it("what never arrives stands first, then what arrives last", () => {
  const partitions = [
    partitionOf({ partition: 0, mode: "tail", eta_seconds: 0, backlog_bytes: "0" }),
    partitionOf({ partition: 1, eta_seconds: 5 }),
    partitionOf({ partition: 2, mode: "falling_behind", eta_seconds: null, backlog_bytes: "9" }),
    partitionOf({ partition: 3, eta_seconds: 500 }),
    partitionOf({ partition: 4, mode: "falling_behind", eta_seconds: null, backlog_bytes: "10" }),
    partitionOf({ partition: 5, mode: "idle", eta_seconds: null }),
  ];
  expect(partitions.sort(byUrgency).map(({ partition }) => partition)).toEqual([4, 2, 3, 1, 5, 0]);
});

test.each([
  [["catch_up"], "1 group is catching up"],
  [["tail", "tail"], "2 groups are up to date"],
  [
    ["tail", "falling_behind", "catch_up", "catch_up"],
    "1 group is falling behind, 2 are catching up, 1 is up to date",
  ],
] as const)("%j are summed up", (modes, text) => {
  expect(summaryText(modes.map((mode) => groupOf({ mode })))).toBe(text);
});
