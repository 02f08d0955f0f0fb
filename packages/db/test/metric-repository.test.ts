import type { MetricScrape } from "@millrace/domain";
import { expect, test } from "vitest";
import { databaseFixture, newCluster, newTenant } from "./fixture.ts";

const fixture = databaseFixture();
const T0 = Date.UTC(2026, 0, 1);
const PAST_2_53 = 9_007_199_254_740_993n;

function scrape(clusterId: MetricScrape["clusterId"], second: number): MetricScrape {
  return {
    clusterId,
    brokerId: 1,
    at: new Date(T0 + second * 1000),
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
  };
}

test("a reading comes back to the last digit, once, however often it is written", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  await db.metrics.addScrapes([scrape(id, 0)]);
  await db.metrics.addScrapes([scrape(id, 0)]);
  const range = { from: new Date(T0), to: new Date(T0 + 1000) };
  expect(await db.metrics.scrapes(id, range, 1)).toEqual([scrape(id, 0)]);
  expect(await db.metrics.latest([id], new Date(T0))).toEqual([scrape(id, 0)]);
});

test("a coarser step keeps the last reading of each stretch, and the very first", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  await db.metrics.addScrapes(Array.from({ length: 20 }, (_, second) => scrape(id, second)));
  const range = { from: new Date(T0), to: new Date(T0 + 20_000) };
  const rows = await db.metrics.scrapes(id, range, 10);
  expect(rows.map((row) => row.recordsIn)).toEqual([0n, 9n, 19n]);
});

test("a coarser step keeps what a broker had counted when it restarted", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  const counts = [0n, 5n, 8n, 2n, 4n, 6n, 7n, 8n];
  await db.metrics.addScrapes(
    counts.map((count, second) => ({ ...scrape(id, second), fetchBuckets: [0n, count] })),
  );
  const range = { from: new Date(T0), to: new Date(T0 + 20_000) };
  const rows = await db.metrics.scrapes(id, range, 10);
  expect(rows.map((row) => row.recordsIn)).toEqual([0n, 2n, 7n]);
});

test("retention removes what is older than its limit and nothing else", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  await db.metrics.addScrapes([scrape(id, 0), scrape(id, 100)]);
  await db.metrics.addLag([
    { clusterId: id, groupId: "g", at: new Date(T0), lag: 5n },
    { clusterId: id, groupId: "g", at: new Date(T0 + 100_000), lag: PAST_2_53 },
  ]);
  while ((await db.fleet.metrics.deleteBefore(new Date(T0 + 50_000))) > 0);
  const range = { from: new Date(T0), to: new Date(T0 + 200_000) };
  expect(await db.metrics.scrapes(id, range, 1)).toEqual([scrape(id, 100)]);
  expect((await db.metrics.lag(id, range, 1)).map((sample) => sample.lag)).toEqual([PAST_2_53]);
});

test("lag over a coarse step is one reading per group and stretch, the last one", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  await db.metrics.addLag(
    ["a", "b"].flatMap((groupId) =>
      Array.from({ length: 20 }, (_, second) => ({
        clusterId: id,
        groupId,
        at: new Date(T0 + second * 1000),
        lag: BigInt(second),
      })),
    ),
  );
  const range = { from: new Date(T0), to: new Date(T0 + 20_000) };
  const samples = await db.metrics.lag(id, range, 10);
  expect(samples.map((sample) => [sample.groupId, sample.lag])).toEqual([
    ["a", 9n],
    ["a", 19n],
    ["b", 9n],
    ["b", 19n],
  ]);
});
