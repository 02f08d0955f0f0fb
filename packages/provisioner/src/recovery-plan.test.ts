import { MISSING_SHOWN_MAX } from "@millrace/domain";
import { describe, expect, test } from "vitest";
import { isEmptyPlan } from "./change-plan.ts";
import { isRecoveryPlanId, recoveryPlan } from "./recovery-plan.ts";

const REPORT = {
  cluster_id: "clu_a",
  node_id: 0,
  source: "bucket",
  recovered_to: "2026-11-22T10:00:00Z",
  window_start: "2026-11-21T10:00:00Z",
  snapshot_seq: "12",
  items: "40",
  topics: 2,
  partitions: 4,
  records_from_wal: "0",
  bytes_from_wal: "0",
  missing: [range("orders", 0)],
  warnings: ["the volume was lost"],
  applied: false,
};

function range(topic: string, partition: number) {
  return {
    ...{ topic, partition, from_offset: "9007199254740993", to_offset: "9007199254741000" },
    acknowledged_by: "2026-11-22T10:00:05Z",
  };
}

const plan = (changes: object = {}) => recoveryPlan(JSON.stringify({ ...REPORT, ...changes }));

describe("a recovery plan", () => {
  test("names every partition with missing records, with offsets exact beyond 2^53", () => {
    const made = plan();
    expect(made.recovery?.missing).toEqual([
      {
        ...{ topic: "orders", partition: 0, acknowledgedBy: "2026-11-22T10:00:05Z" },
        ...{ fromOffset: "9007199254740993", toOffset: "9007199254741000" },
      },
    ]);
    expect(made.diff).toContain("9007199254740993 to 9007199254741000 (exclusive)");
    expect(made.diff).toContain("acknowledged before 2026-11-22T10:00:05Z");
    expect(made.diff).not.toContain("sha256");
    expect(made.recovery?.warnings).toEqual(["the volume was lost"]);
    expect(isRecoveryPlanId(made.id)).toBe(true);
  });

  test("is never empty, so that it is always approved by a person", () => {
    expect(isEmptyPlan(plan({ source: "bucket+wal", missing: [] }))).toBe(false);
  });

  test("of the same report has the same id, of another loss another", () => {
    expect(plan({ applied: true }).id).toBe(plan().id);
    expect(plan({ missing: [] }).id).not.toBe(plan().id);
    expect(plan({ recovered_to: "2026-11-22T10:00:01Z" }).id).not.toBe(plan().id);
  });

  test("counts partitions, of which some miss several ranges", () => {
    const later = {
      ...range("orders", 0),
      from_offset: "9007199254742000",
      to_offset: "9007199254743000",
    };
    const { recovery } = plan({ missing: [range("orders", 0), later, range("orders", 1)] });
    expect([recovery?.missing.length, recovery?.missingPartitions]).toEqual([3, 2]);
  });

  test("lists a bounded number of partitions, and differs by those that it does not list", () => {
    const many = Array.from({ length: MISSING_SHOWN_MAX + 2 }, (_, n) => range("orders", n));
    const made = plan({ missing: many });
    expect(made.recovery?.missing).toHaveLength(MISSING_SHOWN_MAX);
    expect(made.recovery?.missingPartitions).toBe(MISSING_SHOWN_MAX + 2);
    const last = { ...range("orders", MISSING_SHOWN_MAX + 1), to_offset: "9007199254741001" };
    expect(plan({ missing: [...many.slice(0, -1), last] }).digest).not.toBe(made.digest);
  });

  test.each([
    ["is no JSON", "panic"],
    ["lacks a field", JSON.stringify({ ...REPORT, recovered_to: undefined })],
    ["has a fraction", JSON.stringify({ ...REPORT, topics: 1.5 })],
    ["has an unknown source", JSON.stringify({ ...REPORT, source: "tape" })],
  ])("is refused where the report %s", (_, text) => {
    expect(() => recoveryPlan(text)).toThrow(/the recovery report is not readable/);
  });
});
