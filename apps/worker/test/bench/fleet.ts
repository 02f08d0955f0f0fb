/**
 * `npm run bench:fleet -w @millrace/worker`: a thousand brokers on one machine. Fills a day of history, then the part of a
 * worker that reads metrics reads each broker every ten seconds over HTTP, while the API answers at a steady rate. Prints how
 * regularly brokers were read, how long the API took, and what a day of readings takes on the disk. Brokers are simulated:
 * their answers are as long as real ones, and come without a gateway's links. One broker per cluster, as clusters have.
 *
 *   --organizations 50 --clusters 1000 --topics 10 --seconds 600 --reads 200
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { openDatabase } from "@millrace/db";
import { keepPartitions } from "@millrace/metrics";
import { withPostgres } from "@millrace/testkit";
import pg from "pg";
import { readApi, readDayCharts } from "./api-reads.ts";
import { addClusters, DAY_MS, fillHistory, sizesOf } from "./fleet-database.ts";

const API_PORT = 4_990;
const TOKEN = "a token of the benchmark, long enough";
const START_MS_MAX = 60_000;
/** Every broker is read once before anything counts. */
const WARM_UP_MS = 15_000;
/** Charts that are read before anybody else reads the API; the first ones also compile the code. */
const DAY_CHARTS = 100;

/** Each option with its default and its bound. */
const BOUNDS = {
  organizations: [50, 500],
  clusters: [1_000, 1_000],
  topics: [10, 1_000],
  seconds: [600, 3_600],
  reads: [200, 2_000],
} as const;
type Options = Record<keyof typeof BOUNDS, number>;

const options = optionsOf(process.argv.slice(2));
const ends: (() => unknown)[] = [];
try {
  await run();
} finally {
  for (const end of ends.reverse()) await end();
}

function optionsOf(args: string[]): Options {
  const names = Object.keys(BOUNDS) as (keyof Options)[];
  const { values } = parseArgs({
    args,
    options: Object.fromEntries(names.map((name) => [name, { type: "string" as const }])),
  });
  const entries = names.map((name) => {
    const [usual, max] = BOUNDS[name];
    const value = Number(values[name] ?? usual);
    if (Number.isInteger(value) && value >= 1 && value <= max) return [name, value] as const;
    throw new Error(`--${name} must be a whole number from 1 to ${max}`);
  });
  return Object.fromEntries(entries) as Options;
}

async function run(): Promise<void> {
  const postgres = await withPostgres();
  ends.push(() => postgres.drop());
  const owner = new pg.Client({ connectionString: postgres.url });
  await owner.connect();
  ends.push(() => owner.end());
  const db = openDatabase({ url: postgres.arrangeUrl });
  ends.push(() => db.close());
  const now = Date.now();
  const range = { from: new Date(now - 1.5 * DAY_MS), to: new Date(now) };
  await db.fleet.metrics.preparePartitions(range);
  await keepPartitions(db.fleet.metrics, new Date());
  const targets = await addClusters(db, owner, options);
  console.log(
    `${options.clusters} clusters of ${options.organizations} organizations, ${options.topics} topics each`,
  );
  await fillHistory(db, owner, { targets, topics: options.topics });
  await printSizes(owner);

  const brokers = child("simulated-brokers.ts", [String(options.topics)]);
  const gateway = `http://127.0.0.1:${await line(brokers)}`;
  const scraper = child("scraper-process.ts", [postgres.workerUrl, gateway, TOKEN]);
  const api = await startApi(postgres.apiUrl);
  await sleep(WARM_UP_MS);
  const alone = await readDayCharts(api, targets, DAY_CHARTS);
  const reads = await readApi(api, targets, { perSecond: options.reads, seconds: options.seconds });
  const { user, system } = JSON.parse(await stopped(scraper));
  const intervals: number[] = JSON.parse(await stopped(brokers));

  print("time from a broker's reading to its next one", intervals);
  print("GET chart, 24 h, one at a time and no other request", alone);
  for (const [what, times] of reads.timesMs) print(`GET ${what}`, times);
  print(
    "GET, all but the 24 h charts",
    [...reads.timesMs].flatMap(([what, times]) => (what === "chart, 24 h" ? [] : times)),
  );
  console.log(`requests that failed: ${reads.failed}`);
  console.log(
    `CPU of the reading worker: ${((user + system) / 1e4 / options.seconds).toFixed(0)} % of one processor`,
  );
  await printStored(owner);
}

/** A program beside this one, which ends with it. */
function child(file: string, args: string[], env: Record<string, string> = {}): ChildProcess {
  const started = spawn(process.execPath, [join(import.meta.dirname, file), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { PATH: process.env.PATH ?? "", ...env },
  });
  ends.push(() => started.kill("SIGKILL"));
  return started;
}

async function line(from: ChildProcess): Promise<string> {
  const [text] = await once(createInterface({ input: from.stdout! }), "line");
  return text;
}

/** What it prints at its end. */
async function stopped(of: ChildProcess): Promise<string> {
  const last = line(of);
  of.kill("SIGTERM");
  return await last;
}

async function startApi(databaseUrl: string): Promise<string> {
  const url = `http://127.0.0.1:${API_PORT}`;
  const api = child("../../../api/src/main.ts", [], {
    DATABASE_URL: databaseUrl,
    MILLRACE_API_PORT: String(API_PORT),
    MILLRACE_AUTH_SECRET: "a secret of the benchmark, long enough",
    LOG_LEVEL: "error",
  });
  api.stdout?.resume();
  const until = performance.now() + START_MS_MAX;
  while (performance.now() < until) {
    const answer = await fetch(`${url}/healthz`).catch(() => undefined);
    if (answer?.ok) return url;
    await sleep(200);
  }
  throw new Error(`the API does not answer at ${url}`);
}

async function printSizes(owner: pg.Client): Promise<void> {
  console.log("a day of readings:");
  for (const table of ["metric_chunk", "metric_reading"] as const) {
    for (const { resolution, rows, bytes } of await sizesOf(owner, table)) {
      console.log(`  ${table}, ${resolution} s: ${rows} rows, ${(bytes / 2 ** 20).toFixed(0)} MiB`);
    }
  }
}

/** Readings of the run that arrived in the database. */
async function printStored(owner: pg.Client): Promise<void> {
  const { rows } = await owner.query(
    "SELECT count(DISTINCT cluster_id)::int AS clusters FROM metric_reading WHERE kind = 'broker' AND at > now() - interval '20 seconds'",
  );
  console.log(
    `clusters with a reading of the last 20 s: ${rows[0].clusters} of ${options.clusters}`,
  );
}

function print(name: string, values: readonly number[]): void {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) => (sorted[Math.floor((sorted.length - 1) * share)] ?? 0).toFixed(1);
  console.log(
    `${name} [ms]: ${sorted.length}, median ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}, max ${at(1)}`,
  );
}
