/**
 * `npm run check:matrix`: what stock clients can do, each capability tried. Prints the table and the reasons.
 *
 *     --broker kafka    Apache Kafka instead of Millrace
 *     --clients A,B     clients whose names begin so
 *     --only A,B        these capabilities
 *     --write           writes MATRIX.md, with the results of this broker
 *
 * Ends with 1 where a client fails at what it has.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import {
  Admin,
  ConfigResourceTypes,
  IncrementalAlterConfigOperationTypes,
} from "@platformatic/kafka";
import {
  assertInstallable,
  installCapabilityPrograms,
  type Program,
} from "../../clients/programs.ts";
import { runLines } from "../clients/client.ts";
import { PEERS, startBroker } from "../plain-broker.ts";
import { CAPABILITIES, type Capability } from "./capabilities.ts";
import { kcatVersion, tryKcat } from "./kcat.ts";

const AT_ONCE_MAX = 3;
const SECONDS_MAX = 150;
const REASON_MAX = 600;

const { values } = parseArgs({
  options: {
    broker: { type: "string", default: "millrace" },
    clients: { type: "string", default: "" },
    only: { type: "string", default: "" },
    write: { type: "boolean", default: false },
  },
});
const peer = PEERS.find((one) => one === values.broker);
if (peer === undefined) throw new Error(`--broker is one of ${PEERS.join(", ")}`);

/** How a capability of a client came out. */
type Outcome = { result: "ok" } | { result: "n/a" | "FAILED"; reason: string };
type Attempt = (capability: Capability, topic: string) => Promise<string | undefined>;

if (values.write && (values.only !== "" || values.clients !== "")) {
  throw new Error("--write needs all clients and capabilities");
}
assertInstallable();
const chosen = values.clients.split(",");
const capabilities = CAPABILITIES.filter(
  (one) => values.only === "" || values.only.split(",").includes(one),
);
if (capabilities.length === 0) throw new Error(`--only is some of ${CAPABILITIES.join(", ")}`);
const broker = await startBroker(peer);
const results = new Map<string, Map<Capability, Outcome>>();
try {
  const attempts = (await findClients()).filter(([name]) =>
    chosen.some((one) => name.startsWith(one)),
  );
  if (attempts.length === 0) throw new Error(`no client's name begins with ${values.clients}`);
  const tasks = attempts.flatMap(([name, attempt]) => {
    results.set(name, new Map());
    return capabilities.map((capability) => () => check(name, attempt, capability));
  });
  const workers = Array.from({ length: AT_ONCE_MAX }, async () => {
    for (let task = tasks.shift(); task !== undefined; task = tasks.shift()) await task();
  });
  await Promise.all(workers);
} finally {
  await broker.remove();
}
const page = pageOf(results);
console.log(page);
if (values.write) writeFileSync(join(import.meta.dirname, "../MATRIX.md"), page);
const failed = [...results.values()]
  .flatMap((row) => [...row.values()])
  .filter(({ result }) => result === "FAILED");
process.exitCode = failed.length > 0 ? 1 : 0;

async function findClients(): Promise<[string, Attempt][]> {
  const programs = await installCapabilityPrograms();
  const pinned = JSON.parse(
    readFileSync(join(import.meta.dirname, "../../package.json"), "utf8"),
  ).dependencies;
  const node = ["kafkajs", "@platformatic/kafka"].map((name) => ({
    name: `${name} ${pinned[name]}`,
    command: [
      process.execPath,
      join(import.meta.dirname, "../../clients/node/capability.ts"),
      name,
    ],
  }));
  const kcat: Attempt = (capability, topic) =>
    tryKcat(capability, { bootstrap: broker.bootstrap, topic, group: topic });
  return [
    ...[...programs, ...node].map((program): [string, Attempt] => [
      program.name,
      attemptOf(program),
    ]),
    [`librdkafka ${kcatVersion()} (kcat)`, kcat],
  ];
}

function attemptOf({ name, command: usual, shareCommand = usual }: Program): Attempt {
  return async (capability, topic) => {
    const [command = "", ...args] = capability === "share group" ? shareCommand : usual;
    let reason: string | undefined;
    await runLines(command, [...args, capability], {
      secondsMax: SECONDS_MAX,
      onLine: (line) => {
        if (line.startsWith("n/a ")) reason = line.slice("n/a ".length);
      },
      env: {
        ...process.env,
        CLIENT_BOOTSTRAP: broker.bootstrap,
        CLIENT_TOPIC: topic,
        CLIENT_GROUP: topic,
        CLIENT_VERSION: name.split(" ").at(-1),
      },
    });
    return reason;
  };
}

async function check(name: string, attempt: Attempt, capability: Capability): Promise<void> {
  const topic = `${name}-${capability}`.replaceAll(/[^\w.-]+/g, "-");
  let outcome: Outcome;
  try {
    await prepare(topic, capability);
    const reason = await attempt(capability, topic);
    outcome = reason === undefined ? { result: "ok" } : { result: "n/a", reason };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    outcome = { result: "FAILED", reason: reason.slice(0, REASON_MAX) };
  }
  results.get(name)?.set(capability, outcome);
  console.error(`${outcome.result}  ${name}: ${capability}`);
}

/** Creates the topic, and has the share group of its name begin at the earliest offset. */
async function prepare(topic: string, capability: Capability): Promise<void> {
  const admin = new Admin({ clientId: "matrix", bootstrapBrokers: [broker.bootstrap] });
  try {
    await admin.createTopics({ topics: [topic], partitions: 2, replicas: 1 });
    if (capability !== "share group") return;
    const { SET } = IncrementalAlterConfigOperationTypes;
    const earliest = { name: "share.auto.offset.reset", value: "earliest", configOperation: SET };
    await admin.incrementalAlterConfigs({
      resources: [
        { resourceType: ConfigResourceTypes.GROUP, resourceName: topic, configs: [earliest] },
      ],
      validateOnly: false,
    });
  } finally {
    await admin.close();
  }
}

function pageOf(results: Map<string, Map<Capability, Outcome>>): string {
  const lines = [
    "# Kafka clients",
    "",
    `Each capability was tried against ${brokerName()} by \`npm run check:matrix -- --write\`. matrix/capabilities.ts says what is tried.`,
    "",
    `| Client | ${capabilities.join(" | ")} |`,
    `|---|${capabilities.map(() => "---|").join("")}`,
  ];
  const reasons = new Map<string, string[]>();
  for (const [name, row] of results) {
    const cells = capabilities.map((capability) => row.get(capability)?.result ?? "");
    lines.push(`| ${name} | ${cells.join(" | ")} |`);
    for (const [capability, outcome] of row) {
      if (outcome.result === "ok") continue;
      const key = `${outcome.result}: ${outcome.reason.replaceAll(/\s+/g, " ").trim()}`;
      reasons.set(key, [...(reasons.get(key) ?? []), `${name}: ${capability}`]);
    }
  }
  if (reasons.size > 0) lines.push("", "## Where it is not ok", "");
  for (const [reason, where] of reasons) lines.push(`- ${where.join("; ")}: ${reason}`);
  return `${lines.join("\n")}\n`;
}

function brokerName(): string {
  if (peer === "kafka") return "Apache Kafka";
  const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], {
    cwd: import.meta.dirname,
    encoding: "utf8",
  });
  return `Millrace at ${commit.trim()}`;
}
