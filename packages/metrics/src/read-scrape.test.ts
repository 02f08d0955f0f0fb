import { expect, test } from "vitest";
import { LATENCY_BOUNDS_US } from "./latency-bounds.ts";
import { isScraped, readScrape, type ScrapedSample } from "./read-scrape.ts";

const source = {
  clusterId: "clu_01JD0000000000000000000000",
  brokerId: 0,
  at: new Date(0),
} as const;

function sample(name: string, labels: Record<string, string>, value: number): ScrapedSample {
  return { name, labels, value };
}

test("adds topics, leaves out internal ones, keeps topics apart too", () => {
  const { broker, topics } = readScrape(source, [
    sample("millrace_topic_bytes_in_total", { topic: "orders" }, 10),
    sample("millrace_topic_bytes_in_total", { topic: "bills" }, 5),
    sample("millrace_topic_bytes_in_total", { topic: "__consumer_offsets" }, 1_000),
    sample("millrace_topic_bytes_out_total", { topic: "orders" }, 7),
    sample("millrace_topic_records_in_total", { topic: "orders" }, 1),
    sample("millrace_connections", { listener: "PLAINTEXT" }, 3),
  ]);
  expect(broker).toMatchObject({ bytesIn: 15n, bytesOut: 7n, recordsIn: 1n, connections: 3 });
  expect(topics.map(({ topic, bytesIn }) => [topic, bytesIn])).toEqual([
    ["bills", 5n],
    ["orders", 10n],
  ]);
});

test("reads the histograms into the fixed buckets, over all other labels", () => {
  const name = "millrace_request_seconds_bucket";
  const { broker } = readScrape(source, [
    sample(name, { api: "Produce", le: "0.0005" }, 1),
    sample(name, { api: "Produce", le: "0.001" }, 4),
    sample(name, { api: "Produce", le: "0.001", version: "9" }, 2),
    sample(name, { api: "Produce", le: "+Inf" }, 9),
    sample(name, { api: "Fetch", le: "0.001" }, 1_000),
  ]);
  expect(broker.produceBuckets).toHaveLength(LATENCY_BOUNDS_US.length + 1);
  expect(broker.produceBuckets.slice(0, 3)).toEqual([1n, 6n, 6n]);
  expect(broker.produceBuckets.at(-1)).toBe(9n);
  // Fetch latency is the service time, another histogram.
  expect(broker.fetchBuckets.every((count) => count === 0n)).toBe(true);
});

test("reads the block cache, and the time waited over directions and tiers", () => {
  const waited = "millrace_network_wait_seconds_sum";
  const { broker } = readScrape(source, [
    sample("millrace_block_cache_hits_total", {}, 3),
    sample("millrace_block_cache_misses_total", {}, 1),
    sample("millrace_block_cache_fetched_bytes_total", {}, 4_096),
    sample("millrace_block_cache_delivered_bytes_total", {}, 4_000),
    sample(waited, { direction: "ingress", tier: "prefetch" }, 0.25),
    sample(waited, { direction: "egress", tier: "catch_up_miss" }, 1.5),
    sample("millrace_network_bytes_total", { direction: "ingress", tier: "prefetch" }, 10),
    sample("millrace_network_bytes_total", { direction: "egress", tier: "prefetch" }, 2),
  ]);
  expect(broker).toMatchObject({
    cacheHits: 3n,
    cacheMisses: 1n,
    cacheFetchedBytes: 4_096n,
    cacheDeliveredBytes: 4_000n,
    networkWaitUs: 1_750_000n,
    tierBytes: [0n, 0n, 0n, 12n, 0n],
    tierWaitUs: [0n, 0n, 1_500_000n, 250_000n, 0n],
  });
});

test("takes values that are no counts for nothing", () => {
  const { broker } = readScrape(source, [
    sample("millrace_topic_bytes_in_total", { topic: "a" }, Number.NaN),
    sample("millrace_topic_bytes_in_total", { topic: "b" }, Number.POSITIVE_INFINITY),
    sample("millrace_topic_bytes_in_total", { topic: "c" }, -1),
    sample("millrace_topic_bytes_in_total", {}, 4),
  ]);
  expect(broker.bytesIn).toBe(0n);
});

test("nothing that is stored is lost by the filter", () => {
  const names = [
    ...["in", "out"].map((way) => `millrace_topic_bytes_${way}_total`),
    ...["hits", "misses", "fetched_bytes", "delivered_bytes"].map(
      (what) => `millrace_block_cache_${what}_total`,
    ),
    ...["millrace_topic_records_in_total", "millrace_connections", "millrace_network_bytes_total"],
    ...["millrace_network_wait_seconds_sum", "millrace_request_seconds_bucket"],
    ...["millrace_request_service_seconds_bucket", "millrace_wal_bytes_total"],
  ];
  const all = names.flatMap((name, index) =>
    ["Produce", "Fetch"].map((api) =>
      sample(name, { api, topic: "orders", tier: "prefetch", le: "+Inf" }, index + 1),
    ),
  );
  const kept = all.filter(({ name, labels }) => isScraped(name, `${name}{api="${labels.api}"} 1`));
  expect(kept.length).toBeLessThan(all.length);
  expect(readScrape(source, kept)).toEqual(readScrape(source, all));
  expect(readScrape(source, kept).broker).not.toEqual(readScrape(source, []).broker);
});
