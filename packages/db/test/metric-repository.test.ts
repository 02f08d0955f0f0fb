import {
  METRIC_KEEP_SECONDS,
  METRIC_RESOLUTIONS,
  type MetricScrape,
  resolutionAt,
} from "@millrace/domain";
import { beforeEach, expect, test } from "vitest";
import { databaseFixture, newCluster, newTenant } from "./fixture.ts";
import { withClient } from "./tenant-rows.ts";

const fixture = databaseFixture();
const T0 = Date.UTC(2026, 0, 1);
const HOUR_MS = 3_600_000;
const PAST_2_53 = 9_007_199_254_740_993n;

// Before each, because one drops partitions.
beforeEach(async () => {
  const range = { from: new Date(T0), to: new Date(T0 + HOUR_MS) };
  await fixture.db.fleet.metrics.preparePartitions(range);
});

function scrape(clusterId: MetricScrape["clusterId"], second: number): MetricScrape {
  return {
    clusterId,
    brokerId: 1,
    at: new Date(T0 + second * 1000),
    afterGap: false,
    bytesIn: PAST_2_53 + BigInt(second),
    bytesOut: 0n,
    recordsIn: BigInt(second),
    produceBuckets: [BigInt(second), PAST_2_53],
    fetchBuckets: [],
    bucketBoundsUs: [500, 1000],
    connections: 3,
    cacheHits: 4n,
    cacheMisses: 5n,
    cacheFetchedBytes: 2n ** 62n,
    cacheDeliveredBytes: 6n,
    networkWaitUs: 7n,
    tierBytes: [1n, 2n, 3n, 4n, 5n],
    tierWaitUs: [0n, 6n, 7n, 8n, 9n],
  };
}

test("a reading comes back to the last digit, once, however often it is written", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  await db.metrics.add([{ resolution: 10, brokers: [scrape(id, 0)] }]);
  await db.metrics.add([{ resolution: 10, brokers: [scrape(id, 0)] }]);
  const range = { from: new Date(T0), to: new Date(T0 + 1000) };
  expect(await db.metrics.scrapes(id, range, 1)).toEqual([scrape(id, 0)]);
  expect(await db.metrics.newest(id)).toEqual(scrape(id, 0));
  expect(await db.metrics.newest(id, 2)).toBeUndefined();
});

test("a coarser step keeps the first reading of each stretch, and the very last", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  const brokers = Array.from({ length: 20 }, (_, second) => scrape(id, second));
  await db.metrics.add([{ resolution: 10, brokers }]);
  const range = { from: new Date(T0), to: new Date(T0 + 20_000) };
  const rows = await db.metrics.scrapes(id, range, 10);
  expect(rows.map((row) => row.recordsIn)).toEqual([0n, 10n, 19n]);
});

test("a coarser step keeps what a broker had counted when it restarted", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  const counts = [0n, 5n, 8n, 2n, 4n, 6n, 7n, 8n];
  const brokers = counts.map((count, second) => ({
    ...scrape(id, second),
    fetchBuckets: [0n, count],
  }));
  await db.metrics.add([{ resolution: 10, brokers }]);
  const range = { from: new Date(T0), to: new Date(T0 + 20_000) };
  const rows = await db.metrics.scrapes(id, range, 10);
  expect(rows.map((row) => row.recordsIn)).toEqual([0n, 2n, 7n]);
});

test("a coarser step keeps both ends of a gap", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  const readings = Array.from({ length: 20 }, (_, second) => scrape(id, second));
  const brokers = readings.map((each, second) => ({ ...each, afterGap: second === 5 }));
  await db.metrics.add([{ resolution: 10, brokers }]);
  const range = { from: new Date(T0), to: new Date(T0 + 20_000) };
  const rows = await db.metrics.scrapes(id, range, 10);
  expect(rows.map((row) => row.recordsIn)).toEqual([0n, 4n, 5n, 10n, 19n]);
});

test("a query takes the readings of its resolution and of coarser ones", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  const seconds = Array.from({ length: 361 }, (_, index) => index * 2);
  for (const [index, second] of seconds.entries()) {
    const before = index === 0 ? undefined : new Date(T0 + (seconds[index - 1] ?? 0) * 1000);
    const at = new Date(T0 + second * 1000);
    const reading = { clusterId: id, brokerId: 1, at, afterGap: false };
    const topic = { ...reading, topic: "t", bytesIn: 1n, bytesOut: 1n, recordsIn: BigInt(second) };
    const resolution = resolutionAt(before, at);
    await db.metrics.add([{ resolution, brokers: [scrape(id, second)], topics: [topic] }]);
  }
  const range = { from: new Date(T0), to: new Date(T0 + 721_000) };
  const timesAt = async (step: number) => {
    const scrapes = await db.metrics.scrapes(id, range, step);
    const topics = await db.metrics.topicScrapes(id, "t", range, step);
    expect(topics.map(({ at }) => at)).toEqual(scrapes.map(({ at }) => at));
    return scrapes.map(({ at }) => (at.getTime() - T0) / 1000);
  };
  expect(await timesAt(2)).toEqual(seconds);
  expect(await timesAt(10)).toEqual(Array.from({ length: 73 }, (_, index) => index * 10));
  expect(await timesAt(60)).toEqual(Array.from({ length: 13 }, (_, index) => index * 60));
  expect(await timesAt(600)).toEqual([0, 600]);
});

test("the retention drops the partitions of each resolution in its time, and nothing else", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  // Days of this test alone: it drops what lies before them.
  const begin = Date.UTC(2025, 10, 20);
  const at = new Date(begin + 1_000);
  await db.fleet.metrics.preparePartitions({ from: at, to: at });
  for (const resolution of METRIC_RESOLUTIONS) {
    const brokers = [{ ...scrape(id, 0), at, brokerId: resolution }];
    const lag = [{ clusterId: id, groupId: `${resolution}`, at, lag: 1n, idle: true }];
    await db.metrics.add([{ resolution, brokers, lag }]);
  }
  const range = { from: at, to: new Date(begin + HOUR_MS) };
  const left = async () => (await db.metrics.scrapes(id, range, 2)).map((each) => each.brokerId);
  const hours = (count: number) => new Date(begin + count * HOUR_MS);
  await db.fleet.metrics.dropPartitions(new Date(hours(3).getTime() - 1));
  expect(await left()).toEqual([2, 10, 60, 600]);
  await db.fleet.metrics.dropPartitions(hours(3));
  expect(await left()).toEqual([10, 60, 600]);
  await db.fleet.metrics.dropPartitions(new Date(hours(3 * 24).getTime() - 1));
  expect(await left()).toEqual([10, 60, 600]);
  await db.fleet.metrics.dropPartitions(hours(3 * 24));
  expect(await left()).toEqual([60, 600]);
  await db.fleet.metrics.dropPartitions(hours(16 * 24));
  expect(await left()).toEqual([600]);
  expect(await db.metrics.lag(id, range, 2)).toMatchObject([{ groupId: "600", idle: true }]);
  // A wrong clock of a worker drops nothing that is not old.
  const now = new Date();
  await db.fleet.metrics.preparePartitions({ from: now, to: now });
  await db.metrics.add([{ resolution: 2, brokers: [{ ...scrape(id, 0), at: now }] }]);
  await db.fleet.metrics.dropPartitions(new Date(now.getTime() + 1000 * 24 * HOUR_MS));
  expect((await db.metrics.newest(id))?.at).toEqual(now);
});

test("partitions are made once, by two at the same time, and for a bounded range", async () => {
  const from = new Date(Date.UTC(2024, 5, 1));
  const range = { from, to: new Date(from.getTime() + HOUR_MS) };
  const prepare = () => fixture.db.fleet.metrics.preparePartitions(range);
  const made = await Promise.all([prepare(), prepare()]);
  // Two tables; two hours, two days' partitions and one of thirty days.
  expect(made.toSorted((a, b) => a - b)).toEqual([0, 10]);
  const wrong = { from: new Date(0), to: new Date() };
  await expect(fixture.db.fleet.metrics.preparePartitions(wrong)).rejects.toThrow(/at once/);
});

test("the database keeps readings as long as the queries expect", async () => {
  await withClient(fixture.url, async (owner) => {
    const { rows } = await owner.query(
      "SELECT resolution, keep_seconds::int AS kept FROM metric_retention() ORDER BY 1",
    );
    const expected = METRIC_RESOLUTIONS.map((each) => [each, METRIC_KEEP_SECONDS[each]]);
    expect(rows.map(({ resolution, kept }) => [resolution, kept])).toEqual(expected);
  });
});

test("lag over a coarse step is one reading per group and stretch, the last one", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  const lag = ["a", "b"].flatMap((groupId) =>
    Array.from({ length: 20 }, (_, second) => ({
      clusterId: id,
      groupId,
      at: new Date(T0 + second * 1000),
      lag: BigInt(second),
      idle: false,
    })),
  );
  await db.metrics.add([{ resolution: 10, lag }]);
  const range = { from: new Date(T0), to: new Date(T0 + 20_000) };
  const samples = await db.metrics.lag(id, range, 10);
  expect(samples.map((sample) => [sample.groupId, sample.lag])).toEqual([
    ["a", 9n],
    ["a", 19n],
    ["b", 9n],
    ["b", 19n],
  ]);
});
