import type { ClusterId, LagSample, MetricName, MetricScrape } from "@millrace/domain";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { alignedTimes, type MetricsReadings, queryMetrics } from "./query-metrics.ts";

const CLUSTER: ClusterId = "clu_01JD0000000000000000000000";
const BOUNDS = [1_000, 2_000, 4_000];
/** A multiple of every step that the tests use. */
const T0 = Date.UTC(2026, 10, 21, 12);

function scrape(seconds: number, counters: Partial<MetricScrape> = {}): MetricScrape {
  return {
    clusterId: CLUSTER,
    brokerId: 0,
    at: new Date(T0 + seconds * 1_000),
    afterGap: false,
    bytesIn: 0n,
    bytesOut: 0n,
    recordsIn: 0n,
    produceBuckets: [0n, 0n, 0n, 0n],
    fetchBuckets: [0n, 0n, 0n, 0n],
    bucketBoundsUs: BOUNDS,
    connections: 0,
    cacheHits: 0n,
    cacheMisses: 0n,
    cacheFetchedBytes: 0n,
    cacheDeliveredBytes: 0n,
    networkWaitUs: 0n,
    tierBytes: [],
    tierWaitUs: [],
    ...counters,
  };
}

function readingsOf(
  scrapes: readonly MetricScrape[],
  lag: readonly LagSample[] = [],
): MetricsReadings {
  return { scrapes: async () => scrapes, topicScrapes: async () => [], lag: async () => lag };
}

async function valuesOf(
  name: MetricName,
  readings: MetricsReadings,
  toSeconds: number,
  stepSeconds: number,
) {
  const series = await queryMetrics(readings, {
    clusterId: CLUSTER,
    from: new Date(T0),
    to: new Date(T0 + toSeconds * 1_000),
    stepSeconds,
  });
  return series.find((each) => each.name === name)?.points.map(([, value]) => value);
}

describe("times", () => {
  test("are multiples of the step and lie within the range", () => {
    const time = fc.integer({ min: 0, max: 10_000_000 });
    fc.assert(
      fc.property(
        time,
        fc.nat(300_000),
        fc.integer({ min: 1_000, max: 60_000 }),
        (from, length, step) => {
          const times = alignedTimes(from, from + length, step);
          for (const end of times) {
            expect(end % step).toBe(0);
            expect(end - step).toBeGreaterThanOrEqual(from);
            expect(end).toBeLessThanOrEqual(from + length);
          }
          expect(times.length).toBeGreaterThanOrEqual(Math.floor(length / step) - 1);
        },
      ),
    );
  });
});

describe("rates", () => {
  test("divide what a stretch brought evenly over the intervals it touches", async () => {
    const readings = readingsOf([
      scrape(-1),
      scrape(3, { bytesIn: 400n }),
      scrape(7, { bytesIn: 400n }),
    ]);
    expect(await valuesOf("bytes_in_rate", readings, 6, 2)).toEqual([100, 50, 0]);
  });

  test("lose nothing and count nothing twice, whenever readings fall and brokers restart", async () => {
    const step = fc.record({
      afterMs: fc.integer({ min: 100, max: 5_000 }),
      requests: fc.bigInt({ min: 1n, max: 1_000n }),
      bytes: fc.bigInt({ min: 0n, max: 1_000n }).map((kilobytes) => kilobytes * 1_000n),
      restarts: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 60 }), async (steps) => {
        let at = 0;
        let bytesIn = 0n;
        let requests = 0n;
        let total = 0n;
        const scrapes = [scrape(0)];
        for (const { afterMs, ...grown } of steps) {
          at += afterMs;
          // A restart that brings at least as many requests as before cannot be told from growth.
          const restarts = grown.restarts && grown.requests < requests;
          bytesIn = (restarts ? 0n : bytesIn) + grown.bytes;
          requests = (restarts ? 0n : requests) + grown.requests;
          total += grown.bytes;
          const produceBuckets = [0n, 0n, requests, requests];
          scrapes.push(scrape(at / 1_000, { bytesIn, produceBuckets }));
        }
        const toSeconds = Math.ceil(at / 1_000 / 10) * 10;
        const rates = await valuesOf("bytes_in_rate", readingsOf(scrapes), toSeconds, 1);
        // The last interval is measured in part: its rate holds for the measured part alone.
        const lastWhole = Math.floor(at / 1_000);
        const seen = (rates ?? []).slice(0, lastWhole).reduce<number>((a, b) => a + (b ?? 0), 0);
        const rest = (at / 1_000 - lastWhole) * (rates?.[lastWhole] ?? 0);
        // Each point is rounded to two digits after the point.
        const inexact = 0.01 * (lastWhole + 1);
        expect(Math.abs(seen + rest - Number(total))).toBeLessThanOrEqual(inexact);
      }),
    );
  });

  test("add over brokers", async () => {
    const readings = readingsOf([
      scrape(0),
      scrape(2, { bytesOut: 200n }),
      scrape(0, { brokerId: 1 }),
      scrape(2, { brokerId: 1, bytesOut: 20n }),
    ]);
    expect(await valuesOf("bytes_out_rate", readings, 2, 2)).toEqual([110]);
  });

  test("do not jump when a deleted topic takes its counters away", async () => {
    const produceBuckets = [5n, 5n, 5n, 5n];
    const readings = readingsOf([
      scrape(0, { bytesIn: 1_000_000n, produceBuckets }),
      scrape(2, { bytesIn: 900_000n, produceBuckets }),
    ]);
    expect(await valuesOf("bytes_in_rate", readings, 2, 2)).toEqual([0]);
  });

  test("are unknown where nothing was measured, before the first reading, and in a gap", async () => {
    const readings = readingsOf([
      scrape(0, { afterGap: true }),
      scrape(2, { bytesIn: 2n }),
      scrape(60, { bytesIn: 4n, afterGap: true }),
      scrape(62, { bytesIn: 8n }),
    ]);
    const rates = await valuesOf("bytes_in_rate", readings, 66, 2);
    expect(rates?.[0]).toBe(1);
    expect(rates?.slice(1, 30).every((rate) => rate === null)).toBe(true);
    // What comes after the last reading is not known either.
    expect(rates?.slice(30)).toEqual([2, null, null]);
    expect(await valuesOf("bytes_in_rate", readingsOf([]), 4, 2)).toEqual([null, null]);
  });

  test("do not stop for a reading that was missed", async () => {
    const readings = readingsOf([
      scrape(0),
      scrape(10, { bytesIn: 10n }),
      scrape(30, { bytesIn: 50n }),
    ]);
    expect(await valuesOf("bytes_in_rate", readings, 30, 10)).toEqual([1, 2, 2]);
  });

  test("of coarse steps come from readings one step apart", async () => {
    const readings = readingsOf([scrape(0), scrape(600, { bytesIn: 6_000n })]);
    expect(await valuesOf("bytes_in_rate", readings, 600, 600)).toEqual([10]);
  });
});

describe("the block cache and the network", () => {
  test("are shown by what was read, fetched and waited for within each interval", async () => {
    const readings = readingsOf([
      // What came before the range has no part in its ratios.
      scrape(0, { cacheMisses: 1_000n, cacheFetchedBytes: 9_000n, cacheDeliveredBytes: 10n }),
      scrape(2, {
        cacheHits: 30n,
        cacheMisses: 1_010n,
        cacheFetchedBytes: 9_210n,
        cacheDeliveredBytes: 210n,
        networkWaitUs: 6_000_000n,
      }),
    ]);
    expect(await valuesOf("cache_hit_ratio", readings, 2, 2)).toEqual([0.75]);
    expect(await valuesOf("cache_fetched_per_delivered", readings, 2, 2)).toEqual([
      expect.closeTo(1.05, 9),
    ]);
    expect(await valuesOf("catch_up_read_rate", readings, 2, 2)).toEqual([100]);
    expect(await valuesOf("network_waiting", readings, 2, 2)).toEqual([3]);
  });

  test("are shown by tier, and not where a reading is of before there were tiers", async () => {
    const readings = readingsOf([
      scrape(0),
      scrape(2, { tierBytes: [800n, 0n, 0n, 0n, 0n], tierWaitUs: [0n, 0n, 0n, 0n, 0n] }),
      scrape(4, { tierBytes: [1_000n, 0n, 0n, 60n, 0n], tierWaitUs: [0n, 4_000_000n, 0n, 0n, 0n] }),
      scrape(2, { brokerId: 1 }),
      scrape(4, { brokerId: 1, bytesIn: 5n }),
    ]);
    expect(await valuesOf("network_rate_wal_upload", readings, 4, 2)).toEqual([null, 100]);
    expect(await valuesOf("network_rate_prefetch", readings, 4, 2)).toEqual([null, 30]);
    expect(await valuesOf("network_waiting_tail_read", readings, 4, 2)).toEqual([null, 2]);
    expect(await valuesOf("network_waiting_compaction", readings, 4, 2)).toEqual([null, 0]);
  });

  test("have no ratio where nobody reads", async () => {
    const readings = readingsOf([scrape(0), scrape(2)]);
    expect(await valuesOf("cache_hit_ratio", readings, 2, 2)).toEqual([null]);
    expect(await valuesOf("cache_fetched_per_delivered", readings, 2, 2)).toEqual([null]);
    expect(await valuesOf("catch_up_read_rate", readings, 2, 2)).toEqual([0]);
  });
});

describe("latencies", () => {
  test("are read from what the buckets grew by, merged over brokers, in milliseconds", async () => {
    const readings = readingsOf([
      // Before the range: 1,000 slow requests that must not be seen.
      scrape(0, { produceBuckets: [0n, 0n, 1_000n, 1_000n] }),
      scrape(2, { produceBuckets: [99n, 99n, 1_099n, 1_099n] }),
      scrape(0, { brokerId: 1 }),
      scrape(2, { brokerId: 1, produceBuckets: [0n, 1n, 1n, 1n] }),
    ]);
    expect(await valuesOf("produce_latency_p50", readings, 2, 2)).toEqual([
      expect.closeTo((1 * 50) / 99, 6),
    ]);
    expect(await valuesOf("produce_latency_p99", readings, 2, 2)).toEqual([1]);
    expect(await valuesOf("produce_latency_p999", readings, 2, 2)).toEqual([
      expect.closeTo(1 + (99.9 - 99) / 1, 6),
    ]);
    expect(await valuesOf("fetch_latency_p99", readings, 2, 2)).toEqual([null]);
  });

  test("after a restart come from the new process alone", async () => {
    const readings = readingsOf([
      scrape(0, { fetchBuckets: [1_000n, 1_000n, 1_000n, 1_000n] }),
      scrape(2, { fetchBuckets: [0n, 0n, 10n, 10n] }),
    ]);
    expect(await valuesOf("fetch_latency_p50", readings, 2, 2)).toEqual([3]);
  });
});

describe("a query for a part of the cluster", () => {
  const query = {
    clusterId: CLUSTER,
    from: new Date(T0),
    to: new Date(T0 + 4_000),
    stepSeconds: 2,
  };
  const none: MetricsReadings = {
    scrapes: async () => [],
    topicScrapes: async () => [],
    lag: async () => [],
  };

  test("of a topic adds over its brokers and follows a restart", async () => {
    const topic = (seconds: number, brokerId: number, bytes: bigint) => ({
      ...{ clusterId: CLUSTER, brokerId, topic: "orders", afterGap: false },
      at: new Date(T0 + seconds * 1_000),
      bytesIn: bytes,
      bytesOut: bytes * 2n,
      recordsIn: bytes / 10n,
    });
    const topicScrapes = async () => [
      ...[topic(0, 0, 0n), topic(2, 0, 100n), topic(4, 0, 40n)],
      ...[topic(0, 1, 50n), topic(2, 1, 150n), topic(4, 1, 150n)],
    ];
    const series = await queryMetrics({ ...none, topicScrapes }, { ...query, topic: "orders" });
    expect(series.map(({ name, points }) => [name, points.map(([, value]) => value)])).toEqual([
      ["bytes_in_rate", [100, 20]],
      ["bytes_out_rate", [200, 40]],
      ["records_in_rate", [10, 2]],
    ]);
  });

  test("of a topic counts from where it began, also where it was deleted before", async () => {
    const topic = (ms: number, records: bigint, afterGap = false) => ({
      ...{ clusterId: CLUSTER, brokerId: 0, topic: "orders", afterGap },
      ...{ at: new Date(T0 + ms), bytesIn: records, bytesOut: 0n, recordsIn: records },
    });
    const topicScrapes = async () => [topic(-10_000, 100n), topic(0, 0n, true), topic(2_000, 300n)];
    const series = await queryMetrics({ ...none, topicScrapes }, { ...query, topic: "orders" });
    const records = series.find(({ name }) => name === "records_in_rate")?.points;
    expect(records?.map(([, value]) => value)).toEqual([150, null]);
  });

  test("of a group has its lag alone, of a broker everything but lag", async () => {
    const ofGroup = await queryMetrics(none, { ...query, groupId: "readers" });
    expect(ofGroup.map(({ name }) => name)).toEqual(["consumer_lag"]);
    const ofBroker = await queryMetrics(none, { ...query, brokerId: 1 });
    const all = await queryMetrics(none, query);
    const rest = all.map(({ name }) => name).filter((name) => name !== "consumer_lag");
    expect(ofBroker.map(({ name }) => name)).toEqual(rest);
  });
});

describe("consumer lag", () => {
  const lag = (seconds: number, groupId: string, records: bigint): LagSample => ({
    clusterId: CLUSTER,
    groupId,
    at: new Date(T0 + seconds * 1_000),
    lag: records,
    idle: false,
  });

  test("is the sum of what the groups last had, until that is too old", async () => {
    const samples = [lag(1, "a", 10n), lag(3, "a", 4n), lag(1, "b", 100n)];
    const values = await valuesOf("consumer_lag", readingsOf([], samples), 40, 2);
    expect(values?.slice(0, 3)).toEqual([110, 104, 104]);
    expect(values?.at(-1)).toBeNull();
  });

  test("of an idle group is its own, and not the cluster's", async () => {
    const samples = [lag(1, "a", 10n), { ...lag(1, "stopped", 100n), idle: true }];
    const readings = readingsOf([], samples);
    expect((await valuesOf("consumer_lag", readings, 2, 2))?.at(0)).toBe(10);
    const range = { from: new Date(T0), to: new Date(T0 + 2_000), stepSeconds: 2 };
    const query = { clusterId: CLUSTER, groupId: "stopped", ...range };
    const ofGroup = await queryMetrics(readingsOf([], samples.slice(1)), query);
    expect(ofGroup[0]?.points[0]?.[1]).toBe(100);
  });
});
