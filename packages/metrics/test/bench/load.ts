/**
 * `npm run bench:metrics`: what metrics of many clusters cost in PostgreSQL. Fills a day of history, then stores readings of
 * every broker every ten seconds, as workers do, while 24-hour charts are queried; prints how late the readings were, how long the
 * queries took and how much the database grows per day. Brokers are simulated: nothing is read over HTTP.
 *
 *   --clusters 500 --brokers 2 --topics 10 --seconds 120
 */
import { parseArgs } from "node:util";
import { type Database, openDatabase, type TenantDatabase } from "@millrace/db";
import {
  type ClusterId,
  METRIC_KEEP_SECONDS,
  METRIC_RESOLUTIONS,
  type MetricScrape,
  newId,
  resolutionAt,
} from "@millrace/domain";
import { withPostgres } from "@millrace/testkit";
import pg from "pg";
import { keepPartitions, queryMetrics, readScrape } from "../../src/index.ts";

const DAY_MS = 86_400_000;
const INTERVAL_MS = 10_000;
/** As many connections as the pool of a worker has. */
const WRITERS = 16;
/** Between two queries: charts of a few people. */
const QUERY_PAUSE_MS = 200;

/** Each option with its default and its bound. */
const BOUNDS = {
  clusters: [500, 2_000],
  brokers: [2, 10],
  topics: [10, 1_000],
  seconds: [120, 3_600],
} as const;
type Options = Record<keyof typeof BOUNDS, number>;

const options = optionsOf(process.argv.slice(2));
const postgres = await withPostgres();
const owner = new pg.Client({ connectionString: postgres.url });
await owner.connect();
const db = openDatabase({ url: postgres.arrangeUrl, connectionsMax: WRITERS });
try {
  await run();
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

async function run(): Promise<void> {
  const tenant = await newTenant(db);
  const clusterIds = await addClusters(tenant);
  await db.fleet.metrics.preparePartitions({ from: new Date(Date.now() - DAY_MS), to: new Date() });
  await keepPartitions(db.fleet.metrics, new Date());
  await time("a day of history at 1 min", () => fillHistory(clusterIds));
  const written = new AbortController();
  const queried = queries(tenant, clusterIds, written.signal);
  const late = await readAll(tenant, clusterIds);
  written.abort();
  print("one round of readings [ms]", late);
  print("24-hour chart of a cluster [ms]", await queried);
  await printGrowth();
}

async function newTenant(database: Database): Promise<TenantDatabase & { environmentId: string }> {
  const id = newId("org");
  const tenant = database.tenant(id);
  await tenant.organizations.create({ id, name: "Bench", slug: "bench" });
  const environment = await tenant.organizations.ensureEnvironment(id, "default");
  return { ...tenant, environmentId: environment.id };
}

async function addClusters(tenant: { environmentId: string }): Promise<ClusterId[]> {
  const ids = Array.from({ length: options.clusters }, () => newId("clu"));
  await owner.query(
    `INSERT INTO cluster (id, organization_id, environment_id, name, region, size, phase, updated_at)
     SELECT id, (SELECT organization_id FROM environment WHERE environment.id = $2), $2,
       'bench-' || row_number() OVER (), 'local', 'dev', 'RUNNING', now()
     FROM unnest($1::text[]) AS id`,
    [ids, tenant.environmentId],
  );
  return ids;
}

/** Cumulative counters of a broker with 100 produces and fetches per second. */
function reading(clusterId: ClusterId, brokerId: number, at: Date): MetricScrape {
  const requests = BigInt(Math.floor(at.getTime() / 10));
  const { broker } = readScrape({ clusterId, brokerId, at }, []);
  const buckets = broker.produceBuckets.map((_, index) => (requests * BigInt(index + 1)) / 28n);
  return {
    ...broker,
    bytesIn: requests * 10_000n,
    bytesOut: requests * 20_000n,
    recordsIn: requests * 100n,
    produceBuckets: buckets,
    fetchBuckets: buckets,
    connections: 100,
  };
}

/** Written by one statement per broker's day: the same rows as readings, without the time for single inserts. */
async function fillHistory(clusterIds: readonly ClusterId[]): Promise<void> {
  const sample = reading(clusterIds[0] ?? newId("clu"), 0, new Date());
  await owner.query(
    `INSERT INTO metric_scrape
     SELECT cluster_id, broker_id, CASE WHEN minute % 10 = 0 THEN 600 ELSE 60 END,
       to_timestamp(minute * 60), false, minute * 600000, minute * 1200000, minute * 6000,
       (SELECT array_agg(minute * 214 * bucket ORDER BY bucket) FROM generate_series(1, $4::int) AS bucket),
       (SELECT array_agg(minute * 214 * bucket ORDER BY bucket) FROM generate_series(1, $4::int) AS bucket),
       $3::int[], 100, 0, 0, 0, 0, 0
     FROM generate_series(
       floor(extract(epoch FROM now() - interval '1 day') / 60)::bigint + 1,
       floor(extract(epoch FROM now()) / 60)::bigint) AS minute,
       unnest($1::text[]) AS cluster_id, generate_series(0, $2::int - 1) AS broker_id`,
    [clusterIds, options.brokers, sample.bucketBoundsUs, sample.produceBuckets.length],
  );
  await owner.query("VACUUM ANALYZE metric_scrape");
}

/** Rounds of readings until the time is up; how long each one took, in milliseconds. */
async function readAll(tenant: TenantDatabase, clusterIds: readonly ClusterId[]) {
  const rounds: number[] = [];
  const begin = performance.now();
  let before: Date | undefined;
  for (let round = 0; round * INTERVAL_MS < options.seconds * 1_000; round += 1) {
    const due = begin + round * INTERVAL_MS;
    await new Promise((done) => setTimeout(done, Math.max(0, due - performance.now())));
    const at = new Date();
    const resolution = resolutionAt(before ?? new Date(at.getTime() - INTERVAL_MS), at);
    before = at;
    const waiting = [...clusterIds];
    const writer = async () => {
      for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
        await store(tenant, id, at, resolution);
      }
    };
    await Promise.all(Array.from({ length: WRITERS }, writer));
    rounds.push(performance.now() - due);
  }
  return rounds;
}

async function store(
  { metrics }: TenantDatabase,
  clusterId: ClusterId,
  at: Date,
  resolution: ReturnType<typeof resolutionAt>,
): Promise<void> {
  const brokers = Array.from({ length: options.brokers }, (_, id) => reading(clusterId, id, at));
  await metrics.addScrapes(resolution, brokers);
  const topics = brokers.flatMap(({ brokerId, bytesIn, bytesOut, recordsIn, afterGap }) =>
    Array.from({ length: options.topics }, (_, index) => ({
      ...{ clusterId, brokerId, topic: `topic-${index}`, at, afterGap },
      ...{ bytesIn, bytesOut, recordsIn },
    })),
  );
  await metrics.addTopicScrapes(resolution, topics);
  await metrics.addLag(resolution, [{ clusterId, groupId: "readers", at, lag: 5n }]);
}

/** Charts of random clusters until the signal; how long each took, in milliseconds. */
async function queries(
  tenant: TenantDatabase,
  clusterIds: readonly ClusterId[],
  signal: AbortSignal,
): Promise<number[]> {
  const times: number[] = [];
  for (let index = 0; !signal.aborted; index += 7) {
    const clusterId = clusterIds[index % clusterIds.length];
    if (clusterId === undefined) break;
    const to = new Date();
    const from = new Date(to.getTime() - DAY_MS);
    const begin = performance.now();
    // What the API does for a range of a day: 300 points.
    await queryMetrics(tenant.metrics, { clusterId, from, to, stepSeconds: DAY_MS / 300_000 });
    times.push(performance.now() - begin);
    await new Promise((done) => setTimeout(done, QUERY_PAUSE_MS));
  }
  return times;
}

async function printGrowth(): Promise<void> {
  const perDay = METRIC_RESOLUTIONS.filter((each) => each === INTERVAL_MS / 1_000);
  const rowsPerDay = perDay.reduce((sum, each) => sum + 86_400 / each, 0);
  for (const table of ["metric_scrape", "topic_scrape", "consumer_lag_sample"]) {
    const { rows } = await owner.query(
      `SELECT sum(pg_total_relation_size(i.inhrelid))::float8 AS bytes,
         (SELECT count(*) FROM ${table})::float8 AS count
       FROM pg_inherits i WHERE i.inhparent = $1::regclass`,
      [table],
    );
    const { bytes, count } = rows[0];
    const series =
      table === "metric_scrape"
        ? options.brokers
        : table === "topic_scrape"
          ? options.brokers * options.topics
          : 1;
    const perRow = bytes / count;
    const gib = (perRow * rowsPerDay * series * options.clusters) / 2 ** 30;
    console.log(
      `${table}: ${count} rows, ${perRow.toFixed(0)} bytes per row, ${gib.toFixed(2)} GiB per day`,
    );
  }
  console.log(
    `kept: ${METRIC_RESOLUTIONS.map((each) => `${each} s for ${METRIC_KEEP_SECONDS[each] / 3_600} h`).join(", ")}`,
  );
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
