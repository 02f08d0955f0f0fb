import type { ClusterId, LagSample, MetricScrape, TopicScrape } from "@millrace/domain";
import type { Client } from "./client.ts";

/** A stretch of time, begin included, end excluded. */
export interface TimeRange {
  readonly from: Date;
  readonly to: Date;
}

interface ScrapeRow {
  broker_id: number;
  at: Date;
  bytes_in: bigint;
  bytes_out: bigint;
  records_in: bigint;
  produce_buckets: bigint[];
  fetch_buckets: bigint[];
  bucket_bounds_us: number[];
  connections: number;
  cache_hits: bigint;
  cache_misses: bigint;
  cache_fetched_bytes: bigint;
  cache_delivered_bytes: bigint;
  network_wait_us: bigint;
}

/** Rows removed by one statement of the retention: short enough not to hold up the writers. */
const DELETE_ROWS_MAX = 5_000;

/** Readings of brokers. Writing the same reading twice changes nothing. */
export class MetricRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  async addScrapes(scrapes: readonly MetricScrape[]): Promise<void> {
    await this.#client.metricScrape.createMany({
      data: scrapes.map((scrape) => ({
        ...scrape,
        produceBuckets: [...scrape.produceBuckets],
        fetchBuckets: [...scrape.fetchBuckets],
        bucketBoundsUs: [...scrape.bucketBoundsUs],
      })),
      skipDuplicates: true,
    });
  }

  /**
   * Readings of one cluster in order of (broker, time): the last one of each stretch of
   * `stepSeconds`. Counters are cumulative, so nothing is lost by leaving out those between; but for
   * two, which are there too: the first one, without which the growth up to the second is unknown,
   * and each last one before a broker restarted and its counters were reset.
   */
  async scrapes(clusterId: ClusterId, range: TimeRange, stepSeconds: number) {
    const rows = await this.#client.$queryRaw<ScrapeRow[]>`
      SELECT * FROM (
        SELECT *,
          at = min(at) OVER broker AS is_first,
          at = max(at) OVER (PARTITION BY broker_id, stretch) AS is_last,
          requests > lead(requests) OVER (PARTITION BY broker_id ORDER BY at) AS restarts
        FROM (
          SELECT *,
            floor(extract(epoch FROM at) / ${stepSeconds}::int) AS stretch,
            produce_buckets[cardinality(produce_buckets)]
              + fetch_buckets[cardinality(fetch_buckets)] AS requests
          FROM metric_scrape
          WHERE cluster_id = ${clusterId} AND at >= ${range.from} AND at < ${range.to}
        ) AS scrape
        WINDOW broker AS (PARTITION BY broker_id)
      ) AS scrape
      WHERE is_first OR is_last OR restarts
      ORDER BY broker_id, at`;
    return rows.map((row): MetricScrape => toScrape(clusterId, row));
  }

  /** The newest reading of each of these clusters' brokers that is younger than `since`. */
  async latest(clusterIds: readonly ClusterId[], since: Date): Promise<MetricScrape[]> {
    const rows = await this.#client.$queryRaw<(ScrapeRow & { cluster_id: string })[]>`
      SELECT DISTINCT ON (cluster_id, broker_id) *
      FROM metric_scrape
      WHERE cluster_id = ANY(${[...clusterIds]}::text[]) AND at >= ${since}
      ORDER BY cluster_id, broker_id, at DESC`;
    return rows.map((row) => toScrape(row.cluster_id as ClusterId, row));
  }

  async addTopicScrapes(scrapes: readonly TopicScrape[]): Promise<void> {
    await this.#client.topicScrape.createMany({ data: [...scrapes], skipDuplicates: true });
  }

  async topicScrapes(
    clusterId: ClusterId,
    topic: string,
    range: TimeRange,
  ): Promise<TopicScrape[]> {
    const rows = await this.#client.topicScrape.findMany({
      where: { clusterId, topic, at: { gte: range.from, lt: range.to } },
      orderBy: [{ brokerId: "asc" }, { at: "asc" }],
    });
    return rows.map((row) => ({ ...row, clusterId }));
  }

  async addLag(samples: readonly LagSample[]): Promise<void> {
    await this.#client.lagSample.createMany({ data: [...samples], skipDuplicates: true });
  }

  /**
   * Lag of every group of one cluster in order of (group, time): the last reading of each stretch of
   * `stepSeconds`, so that a long range does not bring every reading of every group into memory.
   */
  async lag(clusterId: ClusterId, range: TimeRange, stepSeconds: number): Promise<LagSample[]> {
    const rows = await this.#client.$queryRaw<{ group_id: string; at: Date; lag: bigint }[]>`
      SELECT DISTINCT ON (group_id, stretch) group_id, at, lag
      FROM (
        SELECT *, floor(extract(epoch FROM at) / ${stepSeconds}::int) AS stretch
        FROM consumer_lag_sample
        WHERE cluster_id = ${clusterId} AND at >= ${range.from} AND at < ${range.to}
      ) AS sample
      ORDER BY group_id, stretch, at DESC`;
    return rows.map((row) => ({ clusterId, groupId: row.group_id, at: row.at, lag: row.lag }));
  }

  /** Removes some of what is older than `limit`; the number of rows removed, 0 when none is left. */
  async deleteBefore(limit: Date): Promise<number> {
    const scrapes = await this.#client.$executeRaw`
      DELETE FROM metric_scrape WHERE ctid IN
        (SELECT ctid FROM metric_scrape WHERE at < ${limit} LIMIT ${DELETE_ROWS_MAX})`;
    const topics = await this.#client.$executeRaw`
      DELETE FROM topic_scrape WHERE ctid IN
        (SELECT ctid FROM topic_scrape WHERE at < ${limit} LIMIT ${DELETE_ROWS_MAX})`;
    const lag = await this.#client.$executeRaw`
      DELETE FROM consumer_lag_sample WHERE ctid IN
        (SELECT ctid FROM consumer_lag_sample WHERE at < ${limit} LIMIT ${DELETE_ROWS_MAX})`;
    return scrapes + topics + lag;
  }
}

function toScrape(clusterId: ClusterId, row: ScrapeRow): MetricScrape {
  return {
    clusterId,
    brokerId: row.broker_id,
    at: row.at,
    bytesIn: row.bytes_in,
    bytesOut: row.bytes_out,
    recordsIn: row.records_in,
    produceBuckets: row.produce_buckets,
    fetchBuckets: row.fetch_buckets,
    bucketBoundsUs: row.bucket_bounds_us,
    connections: row.connections,
    cacheHits: row.cache_hits,
    cacheMisses: row.cache_misses,
    cacheFetchedBytes: row.cache_fetched_bytes,
    cacheDeliveredBytes: row.cache_delivered_bytes,
    networkWaitUs: row.network_wait_us,
  };
}
