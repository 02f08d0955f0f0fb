/**
 * `npm run bench:load`: what metrics of many clusters cost in PostgreSQL. Fills a day of history, then stores readings of every
 * broker every ten seconds, as a worker does, while 24-hour charts are queried; prints how long each round of readings took,
 * how long the queries took, and what a day of readings takes on the disk. Brokers are simulated: nothing is read over HTTP.
 *
 *   --organizations 50 --clusters 500 --brokers 2 --topics 10 --seconds 600
 */
import { parseArgs } from "node:util";
import { type Database, type MetricReadings, openDatabase } from "@millrace/db";
import { type ClusterId, newId, type OrganizationId, resolutionAt } from "@millrace/domain";
import { withPostgres } from "@millrace/testkit";
import pg from "pg";
import { keepPartitions, queryMetrics, ReadingWriter } from "../../src/index.ts";
import { SimulatedCluster } from "./simulated-cluster.ts";

const DAY_MS = 86_400_000;
const INTERVAL_MS = 10_000;
/** Each cluster's readings are put into chunks this often, as the worker does. */
const COMPACT_ROUNDS = 60;
/** Compactions at a time: those of one round are spread over it. */
const COMPACTIONS = 2;
/** As many connections as the pool of a worker has. */
const CONNECTIONS = 16;
/** Between two queries: charts of a few people. */
const QUERY_PAUSE_MS = 200;
/** Readings of one transaction while the history is filled. */
const HISTORY_BATCH = 60;

/** Each option with its default and its bound. */
const BOUNDS = {
  organizations: [50, 500],
  clusters: [500, 2_000],
  brokers: [2, 10],
  topics: [10, 1_000],
  seconds: [120, 3_600],
} as const;
type Options = Record<keyof typeof BOUNDS, number>;

interface Target {
  readonly id: ClusterId;
  readonly organizationId: OrganizationId;
  readonly simulated: SimulatedCluster;
}

const options = optionsOf(process.argv.slice(2));
const postgres = await withPostgres();
const owner = new pg.Client({ connectionString: postgres.url });
await owner.connect();
const db = openDatabase({ url: postgres.arrangeUrl, connectionsMax: CONNECTIONS });
try {
  await run(db);
} finally {
  await db.close();
  await owner.end();
  await postgres.drop();
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

async function run(database: Database): Promise<void> {
  const targets = await addClusters(database);
  const now = Date.now();
  const range = { from: new Date(now - 1.5 * DAY_MS), to: new Date(now) };
  await database.fleet.metrics.preparePartitions(range);
  await keepPartitions(database.fleet.metrics, new Date());
  await time("a day of history", () => fillHistory(database, targets));
  await printDay();
  const written = new AbortController();
  const queried = queries(database, targets, written.signal);
  const { rounds, compactions } = await readAll(database, targets);
  written.abort();
  print("one round of readings [ms]", rounds);
  print("one cluster's compaction [ms]", compactions);
  print("24-hour chart of a cluster [ms]", await queried);
  console.log(
    `rounds that took longer than the interval: ${rounds.filter((ms) => ms > INTERVAL_MS).length}`,
  );
}

async function addClusters(database: Database): Promise<Target[]> {
  const organizations: { id: OrganizationId; environmentId: string }[] = [];
  for (let index = 0; index < options.organizations; index += 1) {
    const id = newId("org");
    const tenant = database.tenant(id);
    await tenant.organizations.create({ id, name: "Bench", slug: `bench-${index}` });
    const environment = await tenant.organizations.ensureEnvironment(id, "default");
    organizations.push({ id, environmentId: environment.id });
  }
  const targets: Target[] = [];
  for (let index = 0; index < options.clusters; index += 1) {
    const of = organizations[index % organizations.length];
    if (of === undefined) continue;
    const id = newId("clu");
    targets.push({
      id,
      organizationId: of.id,
      simulated: new SimulatedCluster(id, options.brokers, options.topics),
    });
    await owner.query(
      `INSERT INTO cluster (id, organization_id, environment_id, name, region, size, phase, updated_at)
       VALUES ($1, $2, $3, $4, 'local', 'dev', 'RUNNING', now())`,
      [id, of.id, of.environmentId, `bench-${index}`],
    );
  }
  return targets;
}

/** A day of one cluster as the worker stores it, and copies of its rows for the others. */
async function fillHistory(database: Database, targets: readonly Target[]): Promise<void> {
  const [first] = targets;
  if (first === undefined) return;
  const { metrics } = database.tenant(first.organizationId);
  const end = Math.floor(Date.now() / INTERVAL_MS) * INTERVAL_MS;
  let batch: MetricReadings[] = [];
  for (let atMs = end - DAY_MS; atMs < end; atMs += INTERVAL_MS) {
    batch.push(
      first.simulated.read(
        new Date(atMs),
        resolutionAt(new Date(atMs - INTERVAL_MS), new Date(atMs)),
      ),
    );
    if (batch.length < HISTORY_BATCH) continue;
    await metrics.add(batch);
    batch = [];
  }
  await metrics.add(batch);
  let more = true;
  while (more) more = await metrics.compact(first.id, new Date());
  const others = targets.slice(1).map(({ id }) => id);
  for (const [table, columns] of [
    ["metric_chunk", "kind, source, resolution, at, data"],
    ["metric_reading", "kind, broker_id, resolution, at, data"],
  ]) {
    await owner.query(
      `INSERT INTO ${table} SELECT other, ${columns} FROM ${table}, unnest($2::text[]) AS other WHERE cluster_id = $1`,
      [first.id, others],
    );
    await owner.query(`VACUUM ANALYZE ${table}`);
  }
}

/** Rounds of readings until the time is up; how long each one took, in milliseconds. */
async function readAll(database: Database, targets: readonly Target[]) {
  const writer = new ReadingWriter(database);
  const rounds: number[] = [];
  const compactions: number[] = [];
  const begin = performance.now();
  let before = new Date(Date.now() - INTERVAL_MS);
  let compacting = Promise.resolve();
  for (let round = 0; round * INTERVAL_MS < options.seconds * 1_000; round += 1) {
    const due = begin + round * INTERVAL_MS;
    await new Promise((done) => setTimeout(done, Math.max(0, due - performance.now())));
    const at = new Date();
    const resolution = resolutionAt(before, at);
    before = at;
    await Promise.all(
      targets.map(({ organizationId, simulated }) =>
        writer.add(organizationId, [simulated.read(at, resolution)]),
      ),
    );
    rounds.push(performance.now() - due);
    const turn = targets.filter((_, index) => index % COMPACT_ROUNDS === round % COMPACT_ROUNDS);
    await compacting;
    compacting = compact(database, turn, compactions);
  }
  await compacting;
  return { rounds, compactions };
}

async function compact(
  database: Database,
  targets: readonly Target[],
  times: number[],
): Promise<void> {
  const waiting = [...targets];
  const worker = async () => {
    for (let target = waiting.pop(); target !== undefined; target = waiting.pop()) {
      const begin = performance.now();
      const { metrics } = database.tenant(target.organizationId);
      while (await metrics.compact(target.id, new Date())) {}
      times.push(performance.now() - begin);
    }
  };
  await Promise.all(Array.from({ length: COMPACTIONS }, worker));
}

/** Charts of clusters in turn until the signal; how long each took, in milliseconds. */
async function queries(
  database: Database,
  targets: readonly Target[],
  signal: AbortSignal,
): Promise<number[]> {
  const times: number[] = [];
  for (let index = 0; !signal.aborted; index += 7) {
    const target = targets[index % targets.length];
    if (target === undefined) break;
    const to = new Date();
    const from = new Date(to.getTime() - DAY_MS);
    const begin = performance.now();
    const { metrics } = database.tenant(target.organizationId);
    // What the API does for a range of a day: 300 points.
    const query = { clusterId: target.id, from, to, stepSeconds: DAY_MS / 300_000 };
    await queryMetrics(metrics, query);
    await metrics.newest(target.id);
    times.push(performance.now() - begin);
    await new Promise((done) => setTimeout(done, QUERY_PAUSE_MS));
  }
  return times;
}

/** What a day of all clusters takes, with its indexes. */
async function printDay(): Promise<void> {
  for (const table of ["metric_chunk", "metric_reading"]) {
    const { rows } = await owner.query(
      `SELECT substring(c.relname FROM '_(\\d+)_\\d+$')::int AS resolution, sum(c.reltuples)::float8 AS count,
         sum(pg_total_relation_size(c.oid))::float8 AS bytes
       FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
       WHERE i.inhparent = $1::regclass AND c.reltuples > 0 GROUP BY 1 ORDER BY 1`,
      [table],
    );
    for (const { resolution, count, bytes } of rows) {
      console.log(`${table}, ${resolution} s: ${count} rows, ${(bytes / 2 ** 20).toFixed(0)} MiB`);
    }
  }
}

async function time(name: string, work: () => Promise<void>): Promise<void> {
  const begin = performance.now();
  await work();
  console.log(`${name}: ${((performance.now() - begin) / 1_000).toFixed(1)} s`);
}

function print(name: string, values: readonly number[]): void {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) => (sorted[Math.floor((sorted.length - 1) * share)] ?? 0).toFixed(1);
  console.log(`${name}: ${sorted.length}, median ${at(0.5)}, p99 ${at(0.99)}, max ${at(1)}`);
}
