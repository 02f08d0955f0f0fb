/** Readings answer queries in the same way whether they are in chunks or not. */
import { type ClusterId, resolutionAt } from "@millrace/domain";
import type pg from "pg";
import { beforeAll, expect, test } from "vitest";
import { databaseFixture, newCluster, newTenant, type Tenant } from "./fixture.ts";
import { migrationsBefore, sqlOf, withEmptyDatabase } from "./migrations.ts";
import { withClient } from "./tenant-rows.ts";

const fixture = databaseFixture();
/** A whole day. */
const T0 = Date.UTC(2026, 0, 1);
const DAY_MS = 86_400_000;
const RANGE = { from: new Date(T0), to: new Date(T0 + DAY_MS) };

beforeAll(async () => {
  const range = { from: new Date(T0), to: new Date(T0 + DAY_MS) };
  await fixture.db.fleet.metrics.preparePartitions(range);
});

function reading(clusterId: ClusterId, brokerId: number, second: number) {
  const of = { clusterId, brokerId, at: new Date(T0 + second * 1_000), afterGap: second === 1_200 };
  // A restart after 1,500 seconds.
  const count = BigInt(second < 1_500 ? second * 10 : second - 1_499);
  const broker = {
    ...of,
    ...{ bytesIn: count * 1_000n, bytesOut: 2n ** 60n + count, recordsIn: count, connections: 7 },
    ...{ cacheHits: 1n, cacheMisses: 2n, cacheFetchedBytes: 3n, cacheDeliveredBytes: 4n },
    ...{ networkWaitUs: 5n, bucketBoundsUs: [500, 1_000] },
    // The broker was upgraded meanwhile.
    tierBytes: second < 900 ? [] : [count, 1n, 2n, 3n, 4n],
    tierWaitUs: second < 900 ? [] : [0n, count, 2n, 3n, 4n],
    produceBuckets: [count / 2n, count, count],
    fetchBuckets: [count / 3n, count / 2n, count],
  };
  const topics = ["orders", "é b"].map((topic) => ({
    ...{ ...of, topic, bytesIn: count, bytesOut: count * 2n, recordsIn: count / 2n },
  }));
  const lag = [{ clusterId, groupId: "g", at: of.at, lag: count, idle: false }];
  return { broker, topics, lag: brokerId === 0 ? lag : [] };
}

/** Two hours of two brokers, read every ten seconds. */
async function addReadings(tenant: Tenant, id: ClusterId, seconds: readonly number[]) {
  const readings = seconds.flatMap((second) =>
    [0, 1].map((brokerId) => {
      const at = new Date(T0 + second * 1_000);
      const { broker, topics, lag } = reading(id, brokerId, second);
      const resolution = resolutionAt(new Date(at.getTime() - 10_000), at);
      return { resolution, brokers: [broker], topics, lag };
    }),
  );
  await tenant.db.metrics.add(readings);
}

const SECONDS = Array.from({ length: 720 }, (_, index) => index * 10);

async function answers({ db }: Tenant, id: ClusterId) {
  const steps = [2, 10, 60, 288, 600];
  return Promise.all(
    steps.map(async (step) => ({
      scrapes: await db.metrics.scrapes(id, RANGE, step),
      ofBroker: await db.metrics.scrapes(id, RANGE, step, 1),
      topics: await db.metrics.topicScrapes(id, "é b", RANGE, step),
      lag: await db.metrics.lag(id, RANGE, step),
      newest: await db.metrics.newest(id, 1),
    })),
  );
}

async function compactAll({ db }: Tenant, id: ClusterId, at: Date): Promise<void> {
  let more = true;
  while (more) more = await db.metrics.compact(id, at);
}

async function single(id: ClusterId): Promise<number> {
  return withClient(fixture.url, async (owner) => {
    const text = "SELECT count(*)::int AS n FROM metric_reading WHERE cluster_id = $1";
    return (await owner.query(text, [id])).rows[0].n;
  });
}

test("chunks replace the readings of times that are over, and answer as they did", async () => {
  const tenant = await newTenant(fixture.db);
  const { id } = await newCluster(tenant);
  await addReadings(tenant, id, SECONDS);
  const before = await answers(tenant, id);
  expect(before[1]?.scrapes).toHaveLength(2 * 720);
  // A reading every 10 s of two brokers and their topics, and of the groups.
  expect(await single(id)).toBe(5 * 720);
  await compactAll(tenant, id, new Date(T0 + 5_400_000));
  expect(await answers(tenant, id)).toEqual(before);
  const left = await single(id);
  expect(left).toBeGreaterThan(5 * 180);
  expect(left).toBeLessThan(5 * 400);
  await compactAll(tenant, id, new Date(T0 + 2 * DAY_MS));
  expect(await single(id)).toBe(0);
  expect(await answers(tenant, id)).toEqual(before);
});

test("readings in chunks are counted by kind, source and step, never too few", async () => {
  const tenant = await newTenant(fixture.db);
  const { metrics } = tenant.db;
  const { id: clusterId } = await newCluster(tenant);
  await addReadings(tenant, clusterId, SECONDS);
  await compactAll(tenant, clusterId, new Date(T0 + 2 * DAY_MS));
  for (const step of [10, 60, 600]) {
    const brokers = await metrics.scrapes(clusterId, RANGE, step);
    const one = await metrics.scrapes(clusterId, RANGE, step, 1);
    const count = (source?: string) =>
      metrics.countUpTo({ clusterId, kind: "broker", source }, RANGE, step);
    expect(await count()).toBeGreaterThanOrEqual(brokers.length);
    expect(await count("1")).toBeGreaterThanOrEqual(one.length);
    expect(await count("1")).toBeLessThan(await count());
    expect(await count("x")).toBe(0);
  }
  const kind = "topics";
  const all = await metrics.topicScrapes(clusterId, undefined, RANGE, 10);
  const count = await metrics.countUpTo({ clusterId, kind }, RANGE, 10);
  // A topic's chunk has the readings of both brokers.
  expect(count).toBeGreaterThanOrEqual(all.length / 2);
  expect(new Set(all.map(({ topic }) => topic))).toContain("é b");
});

test("readings that come late, or again, are merged into their chunk, once", async () => {
  const tenant = await newTenant(fixture.db);
  const [whole, late] = [await newCluster(tenant, "whole"), await newCluster(tenant, "late")];
  const range = SECONDS.slice(0, 200);
  await addReadings(tenant, whole.id, range);
  const end = new Date(T0 + 2 * DAY_MS);
  for (const part of [0, 1]) {
    await addReadings(
      tenant,
      late.id,
      range.filter((_, index) => index % 2 === part),
    );
    await addReadings(tenant, late.id, range.slice(0, 10));
    await Promise.all([compactAll(tenant, late.id, end), compactAll(tenant, late.id, end)]);
  }
  expect(await single(late.id)).toBe(0);
  const renamed = JSON.parse(
    text(await answers(tenant, late.id)).replaceAll(late.id, whole.id),
  ) as unknown;
  expect(renamed).toEqual(JSON.parse(text(await answers(tenant, whole.id))));
});

test("another tenant's readings are neither compacted nor seen", async () => {
  const [own, other] = [await newTenant(fixture.db), await newTenant(fixture.db)];
  const { id } = await newCluster(own);
  await addReadings(own, id, [0, 10]);
  await compactAll(other, id, new Date(T0 + 2 * DAY_MS));
  expect(await single(id)).toBe(10);
  expect(await other.db.metrics.scrapes(id, RANGE, 10)).toEqual([]);
});

/** Rows as the version before wrote them: a day of 10 s, with all that is coarser. */
async function addOldRows(client: pg.Client, count: number): Promise<void> {
  await client.query("SELECT prepare_metric_partitions($1, $2)", [RANGE.from, RANGE.to]);
  const readings = `
    SELECT to_timestamp($1::bigint + n * 10) AS at, n, CASE WHEN n % 60 = 0 THEN 600 WHEN n % 6 = 0 THEN 60 ELSE 10 END AS r
    FROM generate_series(0, $2::int - 1) AS n`;
  const parameters = [T0 / 1_000, count];
  await client.query(
    `INSERT INTO metric_scrape SELECT 'clu_old', 0, r, at, n = 50, 9007199254740993 + n, n, n, ARRAY[n, n + 5],
       ARRAY[n], ARRAY[500], 3, n, n, n, n, n FROM (${readings}) AS reading`,
    parameters,
  );
  await client.query(
    `INSERT INTO topic_scrape SELECT 'clu_old', 0, topic, r, at, n = 50, n, n, n
     FROM (${readings}) AS reading, unnest(ARRAY['a', 'b', 'c']) AS topic`,
    parameters,
  );
  await client.query(
    `INSERT INTO consumer_lag_sample SELECT 'clu_old', 'g', r, at, n FROM (${readings}) AS reading`,
    parameters,
  );
}

test("readings from before chunks come back to the last digit, and become chunks", async () => {
  const name = "20261124041500_metric_chunks";
  const tenant = await newTenant(fixture.db);
  const { id } = await newCluster(tenant);
  const count = 4_000;
  await withEmptyDatabase(fixture.url, async (client) => {
    for (const before of await migrationsBefore(name)) await client.query(await sqlOf(before));
    await addOldRows(client, count);
    await client.query(await sqlOf(name));
    const { rows } = await client.query("SELECT * FROM metric_reading");
    expect(rows).toHaveLength(3 * count);
    await withClient(fixture.url, async (owner) => {
      await owner.query(
        `INSERT INTO metric_reading SELECT $1, kind, broker_id, resolution, at, decode(data, 'hex')
         FROM jsonb_to_recordset($2) AS row (kind text, broker_id int, resolution int, at timestamptz, data text)`,
        [id, JSON.stringify(rows.map((row) => ({ ...row, data: row.data.toString("hex") })))],
      );
    });
  });
  const { metrics } = tenant.db;
  const expected = (n: number) => ({
    ...{ brokerId: 0, at: new Date(T0 + n * 10_000), afterGap: n === 50, connections: 3 },
    ...{ bytesIn: 9_007_199_254_740_993n + BigInt(n), produceBuckets: [BigInt(n), BigInt(n + 5)] },
    ...{ fetchBuckets: [BigInt(n)], bucketBoundsUs: [500], networkWaitUs: BigInt(n) },
  });
  const check = async () => {
    const scrapes = await metrics.scrapes(id, RANGE, 10);
    expect(scrapes).toMatchObject(Array.from({ length: count }, (_, n) => expected(n)));
    const topics = await metrics.topicScrapes(id, "b", RANGE, 10);
    expect(topics.map(({ recordsIn }) => Number(recordsIn))).toEqual([...Array(count).keys()]);
    const lag = await metrics.lag(id, RANGE, 10);
    expect(lag.map((each) => Number(each.lag))).toEqual([...Array(count).keys()]);
  };
  await check();
  await compactAll(tenant, id, new Date(T0 + 2 * DAY_MS));
  expect(await single(id)).toBe(0);
  await check();
});

function text(value: unknown): string {
  return JSON.stringify(value, (_, each) => (typeof each === "bigint" ? `${each}` : each));
}
