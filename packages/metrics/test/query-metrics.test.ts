/** Readings written to a real PostgreSQL and asked for again. */
import { type Database, openDatabase, type TenantDatabase } from "@millrace/db";
import {
  type ClusterId,
  METRIC_RESOLUTIONS,
  type MetricName,
  newId,
  resolutionAt,
} from "@millrace/domain";
import { type TestDatabase, withPostgres } from "@millrace/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { keepPartitions, queryMetrics, readScrape } from "../src/index.ts";

let database: TestDatabase;
let db: Database & TenantDatabase;
let clusterId: ClusterId;
/** A whole minute some time ago. */
const T0 = Date.UTC(2026, 10, 21, 12);

beforeAll(async () => {
  database = await withPostgres();
  const organizationId = newId("org");
  const arranging = openDatabase({ url: database.arrangeUrl });
  db = { ...arranging, ...arranging.tenant(organizationId) };
  await db.organizations.create({ id: organizationId, name: "T", slug: "t" });
  const environment = await db.organizations.ensureEnvironment(organizationId, "default");
  const cluster = await db.clusters.create({
    organizationId,
    environmentId: environment.id,
    name: newId("clu").slice(-8).toLowerCase(),
    region: "local",
    size: "dev",
    labels: {},
    conditions: [],
  });
  clusterId = cluster.id;
});

afterAll(async () => {
  await db?.close();
  await database?.drop();
});

/** A minute of one broker: 1,000 bytes and 10 produces of 5 ms per second, read every 2 s. */
async function addMinute(): Promise<void> {
  await db.fleet.metrics.preparePartitions({ from: new Date(T0), to: new Date(T0 + 60_000) });
  for (let seconds = 0; seconds <= 60; seconds += 2) {
    const source = { clusterId, brokerId: 0, at: new Date(T0 + seconds * 1_000 + 137) };
    const produce = { api: "Produce" };
    const { broker, topics } = readScrape(source, [
      { name: "millrace_topic_bytes_in_total", labels: { topic: "a" }, value: seconds * 1_000 },
      {
        name: "millrace_request_seconds_bucket",
        labels: { ...produce, le: "0.006" },
        value: seconds * 10,
      },
      {
        name: "millrace_request_seconds_bucket",
        labels: { ...produce, le: "+Inf" },
        value: seconds * 10,
      },
    ]);
    const resolution = resolutionAt(new Date(source.at.getTime() - 2_000), source.at);
    const lag = [{ clusterId, groupId: "g", at: source.at, lag: 7n, idle: false }];
    await db.metrics.add([{ resolution, brokers: [broker], topics, lag }]);
  }
}

async function valuesOf(name: MetricName, stepSeconds: number) {
  const series = await queryMetrics(db.metrics, {
    clusterId,
    from: new Date(T0 + 10_000),
    to: new Date(T0 + 50_000),
    stepSeconds,
  });
  return series.find((each) => each.name === name)?.points.map(([, value]) => value) ?? [];
}

test("rates, percentiles and lag come back at every step", async () => {
  await addMinute();
  for (const step of [2, 5, 10, 20]) {
    const rates = await valuesOf("bytes_in_rate", step);
    expect(rates.length).toBeGreaterThan(0);
    for (const rate of rates) expect(rate).toBeCloseTo(1_000, 6);
    for (const p99 of await valuesOf("produce_latency_p99", step)) {
      // All observations lie in the bucket from 4 to 6 ms.
      expect(p99).toBeGreaterThan(4);
      expect(p99).toBeLessThanOrEqual(6);
    }
    expect(new Set(await valuesOf("consumer_lag", step))).toEqual(new Set([7]));
  }
});

test("partitions for the time to come are there before it comes, and old ones go", async () => {
  const now = Date.now();
  await keepPartitions(db.fleet.metrics, new Date(now));
  for (const minutes of [-50, 0, 110]) {
    const at = new Date(now + minutes * 60_000);
    const { broker } = readScrape({ clusterId, brokerId: 9, at }, []);
    const brokers = [broker];
    await db.metrics.add(METRIC_RESOLUTIONS.map((resolution) => ({ resolution, brokers })));
  }
  const old = new Date(T0);
  await db.fleet.metrics.preparePartitions({ from: old, to: old });
  await keepPartitions(db.fleet.metrics, new Date(now));
  const { broker } = readScrape({ clusterId, brokerId: 9, at: old }, []);
  await expect(db.metrics.add([{ resolution: 2, brokers: [broker] }])).rejects.toThrow(/partition/);
});
