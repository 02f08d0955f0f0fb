/**
 * `npm run check:tools`: the subcommands of Kafka's command-line tools that users of a managed service need, run against
 * Millrace and Apache Kafka; their outputs and exit statuses are compared.
 *
 *     --only topics,groups   parts of the steps; all by default
 *     --json FILE            every difference that is not known
 *
 * Ends with 1 where a difference is not in known-differences.json.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { CASES } from "./cases.ts";
import { compareTools } from "./compare.ts";

const { values } = parseArgs({ options: { only: { type: "string" }, json: { type: "string" } } });
const jars = process.env.MILLRACE_KAFKA_JARS;
if (!jars)
  throw new Error(
    "MILLRACE_KAFKA_JARS is not set: the folder that kafka/tools/pom.xml's jars are in",
  );
const parts = values.only?.split(",");
const odd = parts?.find((part) => !(part in CASES));
if (odd !== undefined) throw new Error(`no part ${odd}: ${Object.keys(CASES).join(", ")}`);

const { steps, unknown, known, unused } = await compareTools({
  jars,
  ...(parts === undefined ? {} : { parts }),
  onProgress: (line) => console.error(line),
});
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(unknown, null, 2));
for (const [step, list] of Map.groupBy(unknown, (one) => one.step)) {
  console.log(step);
  for (const { only, line } of list) console.log(`    ${only.padEnd(8)}  ${line}`);
}
if (parts === undefined) {
  for (const { step, line } of unused) console.log(`no longer needed: ${step} ${line ?? ""}`);
}
console.log(`${steps} steps, ${known} known differences, ${unknown.length} others`);
process.exitCode = unknown.length > 0 ? 1 : 0;
