/**
 * `npm run drill:streams`: Kafka Streams with exactly_once_v2 and Kafka Connect while the broker is killed with SIGKILL and
 * restarted at once on the same storage. Instances of Streams and a Connect worker are killed too. In the end every
 * window has counted each record of the input once, and every line of the files has arrived.
 *
 *     --minutes 3        how long each part runs
 *     --kill-every 20    seconds between two kills of the broker; every third kill, an instance or a worker dies as well
 *     --only streams     or connect; both by default
 *     --rate 200         records per second, and lines per second
 *     --broker kafka     Apache Kafka instead of Millrace: checks the drill itself
 *
 * Prints counters, and ends with 1 where a result is wrong.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { PEERS, type Peer, type RunningBroker, startBroker } from "../kafka/plain-broker.ts";
import { ConnectFiles } from "./connect-files.ts";
import { type DrillResult, StreamsCounts } from "./streams-counts.ts";
import { fetchJars } from "./streams-jars.ts";

const PARTS = ["streams", "connect"] as const;
const SHOWN_MAX = 50;
const CLIENT_KILL_EACH = 3;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "3" },
    "kill-every": { type: "string", default: "20" },
    only: { type: "string" },
    rate: { type: "string", default: "200" },
    broker: { type: "string", default: "millrace" },
  },
});
const peer = PEERS.find((one) => one === values.broker);
if (peer === undefined) throw new Error(`--broker is one of ${PEERS.join(", ")}`);
const parts = PARTS.filter((part) => values.only === undefined || part === values.only);
if (parts.length === 0) throw new Error(`--only is one of ${PARTS.join(", ")}`);
const minutes = positive("minutes");
const killEvery = positive("kill-every");
const rate = positive("rate");
if (killEvery >= minutes * 60) throw new Error("--kill-every is shorter than --minutes");

const jars = fetchJars();
// The broker of the comparison comes from the same folder.
process.env.MILLRACE_KAFKA_JARS ||= jars;
for (const part of parts) await run(part, peer);

async function run(part: (typeof PARTS)[number], peer: Peer): Promise<void> {
  const broker = await startBroker(peer, ...settingsOf(peer));
  const options = { jars, bootstrap: broker.bootstrap };
  try {
    const result = await (part === "streams" ? countWindows : copyFiles)(broker, options);
    report(part, result);
  } finally {
    await broker.remove();
  }
}

async function countWindows(
  broker: RunningBroker,
  options: { jars: string; bootstrap: string },
): Promise<DrillResult> {
  const counts = new StreamsCounts(options, rate);
  try {
    await counts.start();
    const kills = await disrupt(broker, () => counts.killInstance());
    const { counters, breaches } = await counts.finish();
    return { counters: { "broker kills": kills, ...counters }, breaches };
  } finally {
    await counts.remove();
  }
}

async function copyFiles(
  broker: RunningBroker,
  options: { jars: string; bootstrap: string },
): Promise<DrillResult> {
  const files = new ConnectFiles(options, rate);
  try {
    await files.start();
    const kills = await disrupt(
      broker,
      () => files.killWorker(),
      () => files.restartFailed(),
    );
    const { counters, breaches } = await files.finish(kills);
    return { counters: { "broker kills": kills, ...counters }, breaches };
  } finally {
    await files.remove();
  }
}

/** Kills the broker again and again until the time is over; gives how often. */
async function disrupt(
  broker: RunningBroker,
  killClient: () => Promise<void>,
  attend: () => Promise<void> = async () => {},
): Promise<number> {
  const end = performance.now() + minutes * 60_000;
  let kills = 0;
  for (let next = performance.now(); ; ) {
    next += killEvery * 1_000;
    while (performance.now() < Math.min(next, end)) {
      await sleep(Math.min(2_000, Math.max(0, Math.min(next, end) - performance.now())));
      await attend();
    }
    if (performance.now() >= end) return kills;
    kills++;
    await broker.kill();
    await broker.start();
    if (kills % CLIENT_KILL_EACH === 0) await killClient();
  }
}

function report(part: string, { counters, breaches }: DrillResult): void {
  console.log(`\n${part}:`);
  for (const [name, value] of Object.entries(counters)) console.log(`  ${name}: ${value}`);
  for (const breach of breaches.slice(0, SHOWN_MAX)) console.log(`VIOLATION: ${breach}`);
  console.log(breaches.length === 0 ? "  exact" : `${breaches.length} violations`);
  if (breaches.length > 0) process.exitCode = 1;
}

/** Dead clients leave transactions open: both brokers must look often. */
function settingsOf(broker: Peer): string[] {
  if (broker === "millrace") return [];
  return ["transaction.abort.timed.out.transaction.cleanup.interval.ms=1000"];
}

function positive(name: "minutes" | "kill-every" | "rate"): number {
  const number = Number(values[name]);
  if (!(number > 0)) throw new Error(`--${name} is a number above 0`);
  return number;
}
