/**
 * `npm run check:differences`: the comparison with Apache Kafka, for as long as wanted.
 *
 *     --seeds 1-50       random walks and random versions by these seeds; without it, none
 *     --steps 500        of each walk
 *     --only produce     scenarios whose names begin so
 *     --json FILE        every difference, known or not
 *
 * Ends with 1 where a difference is not in known-differences.json.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { compareBrokers, STEPS_DEFAULT } from "./brokers.ts";
import { shownDifference, sortKnown } from "./known.ts";

const SEEDS_MAX = 10_000;

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "" },
    steps: { type: "string", default: `${STEPS_DEFAULT}` },
    only: { type: "string" },
    json: { type: "string" },
  },
});
const jars = process.env.MILLRACE_KAFKA_JARS;
if (!jars)
  throw new Error(
    "MILLRACE_KAFKA_JARS is not set: the folder that kafka/tools/pom.xml's jars are in",
  );
const found = await compareBrokers({
  jars,
  seeds: seedsOf(values.seeds),
  steps: stepsOf(values.steps),
  ...(values.only === undefined ? {} : { only: values.only }),
  onProgress: (line) => console.error(line),
});
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(found, null, 2));
const { unknown, unused, count } = sortKnown(found);
for (const difference of unknown) console.log(`${shownDifference(difference)}\n`);
if (values.only === undefined) {
  for (const { api, step, path } of unused)
    console.log(`no longer needed: ${api} ${step ?? ""} ${path}`);
}
console.log(`${count} differences, ${unknown.length} of them unknown`);
process.exitCode = unknown.length > 0 ? 1 : 0;

function stepsOf(text: string): number {
  if (!/^[1-9]\d*$/.test(text)) throw new Error("--steps is a number");
  return Number(text);
}

function seedsOf(range: string): number[] {
  if (range === "") return [];
  if (!/^\d+(-\d+)?$/.test(range)) throw new Error("--seeds is a number or a range such as 1-50");
  const [first = 0, last] = range.split("-").map(Number);
  const length = Math.min((last ?? first) - first + 1, SEEDS_MAX);
  return Array.from({ length }, (_, at) => first + at);
}
