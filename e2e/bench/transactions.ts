/**
 * `npm run bench:transactions`: commits per second, and how late a consumer of committed records has them, with Millrace
 * beside Apache Kafka on the same disk. See dataplane/bench/README.md.
 *
 *     --quick          one short round
 *     --rounds 5
 *     --work FOLDER    measures that disk; the folder for temporary files by default
 *     --json FILE      writes the results
 */
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs, promisify } from "node:util";
import { Admin } from "@platformatic/kafka";
import { ApacheKafka } from "../kafka/apache-kafka.ts";
import { PlainBroker } from "../kafka/plain-broker.ts";
import { type Measured, medians, type Row, table } from "./transaction-results.ts";

const run = promisify(execFile);
const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    work: { type: "string" },
    json: { type: "string" },
  },
});
const jars = process.env.MILLRACE_KAFKA_JARS;
if (!jars)
  throw new Error(
    "MILLRACE_KAFKA_JARS is not set: the folder that kafka/tools/pom.xml's jars are in",
  );

const ROUNDS = Number(values.rounds ?? (values.quick ? 1 : 5));
/** A JVM is slow before its code is compiled. */
const WARM_UP_SECONDS = values.quick ? 3 : 20;
const MEASURED_SECONDS = values.quick ? 5 : 30;
/** Producers initialize their transactional ids; in the end the consumer reads what is left. */
const START_AND_DRAIN_SECONDS_MAX = 180;
const PARTITIONS = 16;
const RECORDS_PER_TRANSACTION = 5;
const TOPIC = "transactions";
const IDLE_PERCENT_MIN = 85;
const IDLE_SECONDS_MAX = values.quick ? 3 : 120;
/** As bench:write starts Kafka. */
const BROKER_MACHINE = [
  "-Xms1G",
  "-Xmx1G",
  "-server",
  "-XX:+UseG1GC",
  "-XX:MaxGCPauseMillis=20",
  "-XX:InitiatingHeapOccupancyPercent=35",
  "-XX:+ExplicitGCInvokesConcurrent",
];
/** Kafka's defaults, and that of bench:write for Millrace. */
const KAFKA = ["transaction.state.log.num.partitions=50", "num.io.threads=8"];
const MILLRACE_LOG = "capacity=4294967296&iodepth=32";

interface Load {
  name: string;
  producers: number;
  /** 0: as fast as they can. */
  transactionMs: number;
}

const LOADS: Load[] = [
  { name: "1 producer, 100 ms", producers: 1, transactionMs: 100 },
  { name: "50 producers, 100 ms", producers: 50, transactionMs: 100 },
  { name: "1 producer, without pause", producers: 1, transactionMs: 0 },
  { name: "50 producers, without pause", producers: 50, transactionMs: 0 },
];

interface Broker {
  create(): Promise<void>;
  remove(): Promise<void>;
  bootstrap(): string;
}

const CONTENDERS: Record<string, () => Broker> = {
  millrace: () => {
    const broker = new PlainBroker({ log: MILLRACE_LOG });
    return {
      create: () => broker.create(),
      remove: () => broker.remove(),
      bootstrap: () => broker.bootstrap,
    };
  },
  "kafka_4.1.1_flushed": () => startKafka("log.flush.interval.messages=1"),
  "kafka_4.1.1_unflushed": () => startKafka(),
};

if (values.work !== undefined) {
  mkdirSync(values.work, { recursive: true });
  // Of the brokers' folders.
  process.env.TMPDIR = values.work;
}
const rows: Row[] = [];
const idle: number[] = [];
const names = Object.keys(CONTENDERS);
for (let round = 0; round < ROUNDS; round++) {
  for (let at = 0; at < names.length; at++) {
    await runContender(names[(at + round) % names.length] as string, round);
  }
}
const results = medians(rows);
console.log(table(results));
const report = { rounds: ROUNDS, quick: values.quick, idle_percent_before_runs: idle, results };
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(report, null, 2));
console.log(JSON.stringify(report));

function startKafka(...further: string[]): Broker {
  const settings = [...KAFKA, ...further];
  const kafka = new ApacheKafka({ authorizer: false, further: settings, machine: BROKER_MACHINE });
  return {
    create: () => kafka.create(),
    remove: () => kafka.remove(),
    bootstrap: () => kafka.bootstrap("PLAINTEXT"),
  };
}

/** All loads, one after the other, on a broker of its own. */
async function runContender(contender: string, round: number): Promise<void> {
  const broker = CONTENDERS[contender]?.();
  if (broker === undefined) throw new Error(`no contender ${contender}`);
  try {
    await broker.create();
    const admin = new Admin({ clientId: "bench", bootstrapBrokers: [broker.bootstrap()] });
    await admin.createTopics({ topics: [TOPIC], partitions: PARTITIONS, replicas: 1 });
    await admin.close();
    for (const load of LOADS) {
      idle.push(await untilIdle());
      const measured = await measure(broker.bootstrap(), load);
      rows.push({ contender, load: load.name, ...measured });
      console.error(
        `round ${round + 1}: ${contender}: ${load.name}: ${measured.commits_per_s} commits/s, p99 ${measured.end_to_end_ms.p99} ms`,
      );
    }
  } finally {
    await broker.remove();
  }
}

/** @throws Error where a transaction fails, or a committed record is not consumed. */
async function measure(bootstrap: string, load: Load): Promise<Measured> {
  const program = join(import.meta.dirname, "../clients/java/TransactionLoad.java");
  const numbers = [load.producers, load.transactionMs, RECORDS_PER_TRANSACTION];
  const seconds = [WARM_UP_SECONDS, MEASURED_SECONDS];
  const { stdout } = await run(
    "java",
    [
      "-Xmx1G",
      "-cp",
      `${jars}/*`,
      program,
      bootstrap,
      TOPIC,
      ...[...numbers, ...seconds].map(String),
    ],
    { timeout: (WARM_UP_SECONDS + MEASURED_SECONDS + START_AND_DRAIN_SECONDS_MAX) * 1_000 },
  );
  const measured = JSON.parse(stdout) as Measured;
  if (measured.errors > 0 || measured.missing !== 0) {
    throw new Error(`the load is not carried out: ${stdout}`);
  }
  return measured;
}

/** Waits for an idle machine for a while; gives how idle it was, in percent. */
async function untilIdle(): Promise<number> {
  for (let seconds = 0; ; seconds++) {
    const before = processorTimes();
    await sleep(1_000);
    const after = processorTimes();
    const percent = (100 * (after.idle - before.idle)) / (after.all - before.all);
    if (percent >= IDLE_PERCENT_MIN || seconds >= IDLE_SECONDS_MAX) return Math.round(percent);
  }
}

function processorTimes(): { idle: number; all: number } {
  const [line = ""] = readFileSync("/proc/stat", "utf8").split("\n");
  const times = line.split(/\s+/).slice(1, 9).map(Number);
  return { idle: (times[3] ?? 0) + (times[4] ?? 0), all: times.reduce((sum, one) => sum + one, 0) };
}
