/**
 * `npm run drill:exactly-once`: transactions of Kafka's Java client under failures. Producers commit and abort; members of
 * a group copy what they read, exactly once, while some of them are paused for so long that others take over, and go on
 * as if nothing had happened; a producer dies in the middle of a transaction; the broker is killed and started again. All
 * the time both topics and the coordinators' are compacted, and retention removes what is older than 90 s from the topic
 * that is copied. In the end nothing is lost, duplicated, reordered or visible though aborted, and nothing blocks the
 * readers.
 *
 *     --broker kafka    Apache Kafka instead of Millrace: checks the drill itself
 *     --seconds 60      how long the clients run
 *     --brokers 1       of Millrace; several share a PostgreSQL database and a bucket
 *     --bucket healthy  a folder; or faulty: an S3 server that in turns fails often, is silent, and works
 *     --kills 3         how often a broker is killed; where there are several, each second time for so long that others
 *                       take its partitions over
 *     --pauses 2        how often a member is paused
 *     --members 3       of the group that copies
 *     --producers 2     that write
 *     --seed 1          of all that is left to chance
 *
 * Ends with 1 where the promise is broken.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Admin } from "@platformatic/kafka";
import { seededChance } from "../kafka/differential/random-walk.ts";
import { FaultyS3 } from "../kafka/faulty-s3.ts";
import {
  type NodeOptions,
  PEERS,
  type Peer,
  PlainBroker,
  type RunningBroker,
  startBroker,
} from "../kafka/plain-broker.ts";
import { PlainCluster, SESSION_TIMEOUT_MS } from "../kafka/plain-cluster.ts";
import {
  checkCopied,
  checkEnds,
  checkLeft,
  checkWritten,
  type PartitionEnd,
  type SeenRecord,
  type Transaction,
} from "./transaction-history.ts";

const PARTITIONS = 3;
const [INPUT, OUTPUT, GROUP] = ["eo-in", "eo-out", "eo-copy"];
/** Of a member's session, with what its end takes. */
const PAUSE_MS = 12_000;
const TRANSACTION_TIMEOUT_MS = 10_000;
/** Until a dead transaction no longer stands in the way: its timeout, and how often brokers look. */
const SETTLE_SECONDS_MAX = 60;
const READY_SECONDS_MAX = 60;
const END_SECONDS_MAX = 120;
const DOWN_MS = 500;
/** A failover and some transactions at the brokers that are left. */
const REPLACED_MS = SESSION_TIMEOUT_MS + 5_000;
const COMPLAINT_MAX = 4_000;
/** A record is copied long before. */
const RETENTION_MS = 90_000;
/** Between the check and the readers' look, and what clocks and timestamps differ by. */
const RETENTION_SLACK_MS = 30_000;
const COMPACTION = {
  "min.cleanable.dirty.ratio": "0.01",
  "segment.ms": "5000",
  "segment.bytes": "1048576",
};
const TOPICS = {
  [INPUT]: {
    ...COMPACTION,
    "cleanup.policy": "compact,delete",
    "retention.ms": String(RETENTION_MS),
  },
  [OUTPUT]: { ...COMPACTION, "cleanup.policy": "compact" },
};
/** After so long, compaction must have removed this much of what was aborted. */
const COMPACTED_SECONDS = 60;
const ABORTED_LEFT_MAX = 0.5;
/** What happens every few minutes happens every few seconds. */
const SETTINGS = [
  "log.cleaner.backoff.ms=1000",
  "log.retention.check.interval.ms=4000",
  "offsets.topic.segment.bytes=1048576",
  "transaction.state.log.segment.bytes=1048576",
];
const MILLRACE_SETTINGS = [
  "s3.wal.upload.interval.ms=1000",
  "s3.compaction.interval.ms=4000",
  "s3.object.delete.retention.ms=8000",
];
const KAFKA_SETTINGS = ["transaction.abort.timed.out.transaction.cleanup.interval.ms=1000"];
const MACHINE = ["-Xmx96M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

const jars = process.env.MILLRACE_KAFKA_JARS;
if (!jars)
  throw new Error("MILLRACE_KAFKA_JARS is not set: the folder of the jars of kafka/tools/pom.xml");
const { values } = parseArgs({
  options: {
    broker: { type: "string", default: "millrace" },
    brokers: { type: "string", default: "1" },
    bucket: { type: "string", default: "healthy" },
    seconds: { type: "string", default: "60" },
    kills: { type: "string", default: "0" },
    pauses: { type: "string", default: "2" },
    members: { type: "string", default: "3" },
    producers: { type: "string", default: "2" },
    seed: { type: "string", default: "1" },
  },
});
const peer = PEERS.find((one) => one === values.broker);
if (peer === undefined) throw new Error(`--broker is one of ${PEERS.join(", ")}`);
const buckets = ["healthy", "faulty"];
if (!buckets.includes(values.bucket)) throw new Error(`--bucket is one of ${buckets.join(", ")}`);
const chance = seededChance(Number(values.seed));

/** A client's process and what it has said. */
interface Client {
  name: string;
  child: ChildProcessWithoutNullStreams;
  lines: string[];
  complaint: string;
}

const clients: Client[] = [];
let kills = 0;
const isCluster = Number(values.brokers) > 1;
const objects = mkdtempSync(join(tmpdir(), "millrace-objects-"));
const faultyS3 =
  values.bucket === "faulty" ? await FaultyS3.start(join(objects, "s3"), values.seed) : undefined;
const broker = await startBrokers(peer);
try {
  await createTopics(broker);
  const witness = await startWitness(broker);
  await run(broker, witness);
  const breaches = await check(broker, witness);
  for (const breach of breaches.slice(0, 50)) console.log(`VIOLATION: ${breach}`);
  console.log(breaches.length === 0 ? "exactly-once holds" : `${breaches.length} violations`);
  process.exitCode = breaches.length > 0 ? 1 : 0;
} finally {
  for (const { child } of clients) child.kill("SIGKILL");
  await broker.remove();
  if (faultyS3) console.log(`requests to the bucket: ${await faultyS3.stop()}`);
  rmSync(objects, { recursive: true });
}

async function startBrokers(peer: Peer): Promise<RunningBroker> {
  if (peer !== "millrace") {
    if (isCluster || faultyS3) throw new Error("--brokers and --bucket are for Millrace");
    return startBroker(peer, ...SETTINGS, ...KAFKA_SETTINGS);
  }
  const options: NodeOptions = { further: [...SETTINGS, ...MILLRACE_SETTINGS] };
  if (faultyS3) options.bucket = faultyS3.bucket;
  const broker = isCluster
    ? new PlainCluster(Number(values.brokers), chance, options)
    : new PlainBroker(options);
  await broker.create();
  return broker;
}

async function createTopics({ bootstrap }: RunningBroker): Promise<void> {
  const admin = new Admin({ clientId: "drill", bootstrapBrokers: bootstrap.split(",") });
  for (const [topic, configs] of Object.entries(TOPICS)) {
    await admin.createTopics({
      topics: [topic],
      partitions: PARTITIONS,
      replicas: 1,
      configs: Object.entries(configs).map(([name, value]) => ({ name, value })),
    });
  }
  await admin.close();
}

/** Sees each committed record of the input before retention removes it. */
async function startWitness(broker: RunningBroker): Promise<Client> {
  const witness = startReader(broker, INPUT, "witness");
  await untilSaid(witness, "ready", READY_SECONDS_MAX);
  return witness;
}

async function run(broker: RunningBroker, witness: Client): Promise<void> {
  const start = (role: string, name: string) => startClient(broker.bootstrap, role, name);
  const count = (number: string) => Array.from({ length: Number(number) }, (_, at) => at);
  const members = count(values.members).map((at) => start("transform", `member${at}`));
  const producers = count(values.producers).map((at) => start("produce", `producer${at}`));
  for (const client of [...members, ...producers])
    await untilSaid(client, "ready", READY_SECONDS_MAX);
  const from = performance.now();
  const seconds = Number(values.seconds);
  const events = [
    ...count(values.kills).map(() => ({ at: chance() * seconds, act: () => restart(broker) })),
    ...count(values.pauses).map(() => ({
      at: chance() * seconds,
      act: () => pauseMember(members),
    })),
    { at: (chance() * seconds) / 2, act: () => leaveOpen(broker) },
  ].sort((one, other) => one.at - other.at);
  for (const { at, act } of events) {
    const wait = from + at * 1_000 - performance.now();
    if (wait > 0) await sleep(wait);
    await act();
  }
  const left = from + seconds * 1_000 - performance.now();
  if (left > 0) await sleep(left);
  await Promise.all(producers.map(end));
  await untilCopied(broker, witness);
  await Promise.all(members.map(end));
  await end(witness);
}

async function restart(broker: RunningBroker): Promise<void> {
  const isReplaced = isCluster && kills++ % 2 === 0;
  console.log(isReplaced ? "a broker is killed, and replaced" : "a broker is killed");
  await broker.kill();
  await sleep(isReplaced ? REPLACED_MS : DOWN_MS);
  await broker.start();
}

/** Others take its partitions over; then it goes on in the middle of what it did. */
async function pauseMember(members: Client[]): Promise<void> {
  const member = members[Math.floor(chance() * members.length)] as Client;
  console.log(`${member.name} is paused`);
  member.child.kill("SIGSTOP");
  await sleep(PAUSE_MS);
  member.child.kill("SIGCONT");
}

async function leaveOpen({ bootstrap }: RunningBroker): Promise<void> {
  console.log("a producer dies in the middle of a transaction");
  const client = startClient(bootstrap, "die", "dead");
  await untilSaid(client, "left", READY_SECONDS_MAX);
}

/** Waits until the copies are as many as the committed records, or no more come. */
async function untilCopied(broker: RunningBroker, witness: Client): Promise<void> {
  for (let seconds = 0; seconds < SETTLE_SECONDS_MAX; seconds += 5) {
    const [input, output] = [await read(broker, INPUT), await read(broker, OUTPUT)];
    const blocked = [...checkEnds(INPUT, input.ends), ...checkEnds(OUTPUT, output.ends)];
    if (blocked.length === 0 && readBy(witness).seen.length === output.seen.length) return;
    await sleep(5_000);
  }
}

async function check(broker: RunningBroker, witness: Client): Promise<string[]> {
  const input = readBy(witness);
  const startedAt = Date.now();
  const [left, output] = [await read(broker, INPUT), await read(broker, OUTPUT)];
  const transactions = clients.filter(({ name }) => name.startsWith("producer")).flatMap(historyOf);
  const dead: Transaction = {
    producer: "dead",
    number: 1,
    outcome: "aborted",
    sent: Array.from({ length: PARTITIONS }, (_, at) => ({ partition: at, sequence: at })),
  };
  const outcomes = Object.groupBy(transactions, ({ outcome }) => outcome);
  const tally = Object.entries(outcomes).map(([outcome, list]) => `${list?.length} ${outcome}`);
  console.log(
    `transactions: ${tally.join(", ")}; records: ${input.seen.length} committed, ${output.seen.length} copied`,
  );
  const aborted = clients
    .flatMap(({ lines }) => lines.filter((line) => line.startsWith("uncopied ")))
    .reduce((sum, line) => sum + Number(line.split(" ")[1]), 0);
  const abortedLeft = output.uncommitted - output.seen.length;
  console.log(
    `retention left ${left.seen.length} records of the input; compaction left ${abortedLeft} of at least ${aborted} aborted copies`,
  );
  const lost = clients.flatMap(({ lines }) => lines.filter((line) => line.startsWith("lost")));
  console.log(
    `clients recovered ${lost.length} times${lost[0] === undefined ? "" : `, first from: ${lost[0]}`}`,
  );
  const idle =
    input.seen.length === 0 ? ["nothing was committed: the drill has shown nothing"] : [];
  if (Number(values.seconds) > COMPACTED_SECONDS && abortedLeft > aborted * ABORTED_LEFT_MAX)
    idle.push("compaction did not keep up: most aborted copies are still there");
  if (Number(values.seconds) * 1_000 > 2 * RETENTION_MS && left.seen.length === input.seen.length)
    idle.push("retention removed nothing: the drill has not shown it");
  return [
    ...idle,
    ...[input, left, output].flatMap(checkComplete),
    ...[left, output].flatMap(checkUncommitted),
    ...checkLeft(input.seen, left.seen, startedAt - RETENTION_MS + RETENTION_SLACK_MS),
    ...checkWritten([...transactions, dead], input.seen),
    ...checkCopied(input.seen, output.seen),
    ...checkEnds(INPUT, input.ends),
    ...checkEnds(INPUT, left.ends),
    ...checkEnds(OUTPUT, output.ends),
  ];
}

function historyOf({ name, lines }: Client): Transaction[] {
  const transactions = new Map<number, Transaction>();
  for (const line of lines) {
    const [what, number, partition, sequence] = line.split(" ") as [string, string, string, string];
    const transaction = transactions.get(Number(number));
    if (what === "begin") {
      const begun: Transaction = {
        producer: name,
        number: Number(number),
        sent: [],
        outcome: "unknown",
      };
      transactions.set(begun.number, begun);
    }
    if (transaction === undefined) continue;
    if (what === "sent")
      transaction.sent.push({ partition: Number(partition), sequence: Number(sequence) });
    if (what === "committed" || what === "aborted") transaction.outcome = what;
  }
  return [...transactions.values()];
}

/** The reader came to the end of all partitions. */
function checkComplete({ ends, uncommitted }: Reading): string[] {
  const breaches: string[] = [];
  if (ends.length !== PARTITIONS) breaches.push(`a reader saw ${ends.length} partitions`);
  if (Number.isNaN(uncommitted)) breaches.push("a reader of all records did not come to the end");
  return breaches;
}

/** Who need not wait for commits sees no less. The witness is left out: retention removes what it has seen. */
function checkUncommitted({ seen, uncommitted }: Reading): string[] {
  return uncommitted < seen.length
    ? [`${seen.length} committed records, of which all readers see ${uncommitted}`]
    : [];
}

/** What a reader has printed. */
interface Reading {
  seen: SeenRecord[];
  ends: PartitionEnd[];
  /** Records that are there, also of aborted transactions. */
  uncommitted: number;
}

async function read(broker: RunningBroker, topic: string): Promise<Reading> {
  const reader = startReader(broker, topic, `reader of ${topic}`);
  await end(reader);
  return readBy(reader);
}

function startReader({ bootstrap }: RunningBroker, topic: string, name: string): Client {
  return startClient(bootstrap, "read", name, { TOPIC: topic });
}

function readBy({ lines }: Client): Reading {
  const fields = (what: string) =>
    lines.map((line) => line.split(" ")).filter(([first]) => first === what);
  return {
    seen: fields("read").map(([, partition, offset, value, at]) => ({
      partition: Number(partition),
      offset: Number(offset),
      value: value ?? "",
      at: Number(at),
    })),
    ends: fields("end").map(([, partition, stable, high, position]) => ({
      partition: Number(partition),
      stable: Number(stable),
      high: Number(high),
      position: Number(position),
    })),
    uncommitted: Number(fields("uncommitted")[0]?.[1]),
  };
}

function startClient(
  bootstrap: string,
  role: string,
  name: string,
  further: Record<string, string> = {},
): Client {
  const program = join(import.meta.dirname, "../clients/java/ExactlyOnce.java");
  const child = spawn("java", [...MACHINE, "-cp", `${jars}/*`, program, role], {
    env: {
      ...process.env,
      BOOTSTRAP: bootstrap,
      TOPIC: INPUT,
      OUTPUT,
      GROUP,
      NAME: name,
      SEED: String(Math.floor(chance() * 2 ** 31)),
      PARTITIONS: String(PARTITIONS),
      TIMEOUT_MS: String(TRANSACTION_TIMEOUT_MS),
      ...further,
    },
  });
  const client: Client = { name, child, lines: [], complaint: "" };
  createInterface({ input: child.stdout }).on("line", (line) => client.lines.push(line));
  child.stderr.on("data", (chunk) => {
    client.complaint = (client.complaint + chunk).slice(-COMPLAINT_MAX);
  });
  clients.push(client);
  return client;
}

async function untilSaid(client: Client, line: string, secondsMax: number): Promise<void> {
  for (let tenths = 0; tenths < secondsMax * 10; tenths++) {
    if (client.lines.includes(line)) return;
    if (client.child.exitCode !== null) break;
    await sleep(100);
  }
  throw new Error(
    `${client.name} does not say ${line}: ${client.lines.slice(-3)} ${client.complaint}`,
  );
}

async function end(client: Client): Promise<void> {
  client.child.stdin.end();
  await ended(client);
}

/** @throws Error where the client fails. */
async function ended(client: Client): Promise<void> {
  const { name, child } = client;
  const timer = setTimeout(() => child.kill("SIGKILL"), END_SECONDS_MAX * 1_000);
  if (child.exitCode === null && child.signalCode === null) await once(child, "close");
  clearTimeout(timer);
  if (child.exitCode !== 0) {
    throw new Error(
      `${name} ended with ${child.exitCode ?? child.signalCode}: ${client.complaint}`,
    );
  }
}
