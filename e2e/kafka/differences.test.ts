/** The same requests to Millrace and to Apache Kafka: the answers differ only where known-differences.json says why. */
import { describe, expect, it } from "vitest";
import { compareBrokers } from "./differential/brokers.ts";
import { shownDifference, sortKnown } from "./differential/known.ts";

const jars = process.env.MILLRACE_KAFKA_JARS;
const SEEDS = [1];
const MS_MAX = 600_000;

describe.skipIf(!jars)("Millrace and Apache Kafka answer the same", () => {
  it(
    "in every scenario, in the oldest and newest versions, and by chance",
    async () => {
      const { unknown, unused } = sortKnown(
        await compareBrokers({ jars: jars ?? "", seeds: SEEDS }),
      );
      expect(unknown.map(shownDifference).join("\n\n")).toBe("");
      expect(unused, "entries of known-differences.json that nothing needs").toEqual([]);
    },
    MS_MAX,
  );
});
