import {
  type ClusterId,
  type LagSample,
  METRIC_RESOLUTIONS,
  type MetricResolution,
  type MetricScrape,
  resolutionFor,
  type TopicScrape,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import { Prisma } from "./generated/client.ts";

/** A stretch of time, begin included, end excluded. */
export interface TimeRange {
  readonly from: Date;
  readonly to: Date;
}

interface TopicRow {
  broker_id: number;
  at: Date;
  after_gap: boolean;
  bytes_in: bigint;
  bytes_out: bigint;
  records_in: bigint;
}

interface ScrapeRow extends TopicRow {
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

/** Readings of brokers. Writing the same reading twice changes nothing. */
export class MetricRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Throws where the partition of a reading has not been prepared. */
  async addScrapes(resolution: MetricResolution, scrapes: readonly MetricScrape[]): Promise<void> {
    await this.#client.metricScrape.createMany({
      data: scrapes.map((scrape) => ({
        ...scrape,
        resolution,
        produceBuckets: [...scrape.produceBuckets],
        fetchBuckets: [...scrape.fetchBuckets],
        bucketBoundsUs: [...scrape.bucketBoundsUs],
      })),
      skipDuplicates: true,
    });
  }

  /**
   * Readings of one cluster, or of one of its brokers, in order of (broker, time): the last one of each stretch of
   * `stepSeconds`. Counters are cumulative, so nothing is lost by leaving out those between, but for these, which are
   * there too: the first one, without which the growth up to the second is unknown; each last one before a broker
   * restarted and its counters were reset; and the two at the ends of a gap.
   */
  async scrapes(
    clusterId: ClusterId,
    range: TimeRange,
    stepSeconds: number,
    brokerId?: number,
  ): Promise<MetricScrape[]> {
    const ofBroker =
      brokerId === undefined ? Prisma.empty : Prisma.sql`AND broker_id = ${brokerId}::int`;
    const readings = eachResolution(
      stepSeconds,
      (resolution) => Prisma.sql`
        SELECT * FROM metric_scrape WHERE cluster_id = ${clusterId} AND resolution = ${resolution}::int
          AND at >= ${range.from} AND at < ${range.to} ${ofBroker}`,
    );
    const requests = Prisma.sql`produce_buckets[cardinality(produce_buckets)]
      + fetch_buckets[cardinality(fetch_buckets)]`;
    const rows = await this.#client.$queryRaw<ScrapeRow[]>(
      thinned(readings, Prisma.sql`broker_id`, requests, stepSeconds),
    );
    return rows.map((row): MetricScrape => toScrape(clusterId, row));
  }

  /** The last stored reading of a cluster, or of one of its brokers; nothing is stored for longer than 400 days. */
  async newest(clusterId: ClusterId, brokerId?: number): Promise<MetricScrape | undefined> {
    const row = await this.#client.metricScrape.findFirst({
      where: { clusterId, ...(brokerId !== undefined && { brokerId }) },
      orderBy: { at: "desc" },
    });
    return row ? withoutResolution({ ...row, clusterId }) : undefined;
  }

  /** Throws where the partition of a reading has not been prepared. */
  async addTopicScrapes(
    resolution: MetricResolution,
    scrapes: readonly TopicScrape[],
  ): Promise<void> {
    await this.#client.topicScrape.createMany({
      data: scrapes.map((scrape) => ({ ...scrape, resolution })),
      skipDuplicates: true,
    });
  }

  /** As `scrapes`, of one topic. */
  async topicScrapes(
    clusterId: ClusterId,
    topic: string,
    range: TimeRange,
    stepSeconds: number,
  ): Promise<TopicScrape[]> {
    const readings = eachResolution(
      stepSeconds,
      (resolution) => Prisma.sql`
        SELECT * FROM topic_scrape WHERE cluster_id = ${clusterId} AND topic = ${topic}
          AND resolution = ${resolution}::int AND at >= ${range.from} AND at < ${range.to}`,
    );
    const bytes = Prisma.sql`bytes_in + bytes_out`;
    const rows = await this.#client.$queryRaw<TopicRow[]>(
      thinned(readings, Prisma.sql`broker_id`, bytes, stepSeconds),
    );
    return rows.map((row) => ({
      clusterId,
      topic,
      brokerId: row.broker_id,
      at: row.at,
      afterGap: row.after_gap,
      bytesIn: row.bytes_in,
      bytesOut: row.bytes_out,
      recordsIn: row.records_in,
    }));
  }

  /** Throws where the partition of a sample has not been prepared. */
  async addLag(resolution: MetricResolution, samples: readonly LagSample[]): Promise<void> {
    await this.#client.lagSample.createMany({
      data: samples.map((sample) => ({ ...sample, resolution })),
      skipDuplicates: true,
    });
  }

  /**
   * Lag of every group of one cluster, or of one group, in order of (group, time): the last reading of each stretch of
   * `stepSeconds`, so that a long range does not bring every reading of every group into memory.
   */
  async lag(
    clusterId: ClusterId,
    range: TimeRange,
    stepSeconds: number,
    groupId?: string,
  ): Promise<LagSample[]> {
    const ofGroup = groupId === undefined ? Prisma.empty : Prisma.sql`AND group_id = ${groupId}`;
    const samples = eachResolution(
      stepSeconds,
      (resolution) => Prisma.sql`
        SELECT * FROM consumer_lag_sample
        WHERE cluster_id = ${clusterId} AND resolution = ${resolution}::int
          AND at >= ${range.from} AND at < ${range.to} ${ofGroup}`,
    );
    const rows = await this.#client.$queryRaw<{ group_id: string; at: Date; lag: bigint }[]>`
      SELECT DISTINCT ON (group_id, stretch) group_id, at, lag
      FROM (
        SELECT *, floor(extract(epoch FROM at) / ${stepSeconds}::int) AS stretch FROM (${samples}) AS s
      ) AS sample
      ORDER BY group_id, stretch, at DESC`;
    return rows.map((row) => ({ clusterId, groupId: row.group_id, at: row.at, lag: row.lag }));
  }

  /** Makes the partitions for readings of this time, if they are missing; the number of those made. */
  async preparePartitions({ from, to }: TimeRange): Promise<number> {
    const [row] = await this.#client.$queryRaw<{ made: number }[]>`
      SELECT prepare_metric_partitions(${from}, ${to}) AS made`;
    return row?.made ?? 0;
  }

  /** Drops the partitions that are not to be kept any longer at `now`; their number. */
  async dropPartitions(now: Date): Promise<number> {
    const [row] = await this.#client.$queryRaw<{ dropped: number }[]>`
      SELECT drop_metric_partitions(${now}) AS dropped`;
    return row?.dropped ?? 0;
  }
}

/**
 * The readings that a query with this step takes. One statement per resolution, because the planner leaves out
 * partitions of other times only where the resolution is one value.
 */
function eachResolution(
  stepSeconds: number,
  select: (resolution: MetricResolution) => Prisma.Sql,
): Prisma.Sql {
  const finest = resolutionFor(stepSeconds);
  const taken = METRIC_RESOLUTIONS.filter((resolution) => resolution >= finest);
  return Prisma.join(taken.map(select), " UNION ALL ");
}

/** What `scrapes` describes; `total` is a counter that shrinks when the broker restarts. */
function thinned(
  readings: Prisma.Sql,
  source: Prisma.Sql,
  total: Prisma.Sql,
  stepSeconds: number,
): Prisma.Sql {
  return Prisma.sql`
    SELECT * FROM (
      SELECT *,
        at = min(at) OVER source AS is_first,
        at = max(at) OVER (PARTITION BY ${source}, stretch) AS is_last,
        total > lead(total) OVER in_order AS restarts,
        lead(after_gap) OVER in_order AS gap_follows
      FROM (
        SELECT *, floor(extract(epoch FROM at) / ${stepSeconds}::int) AS stretch, ${total} AS total
        FROM (${readings}) AS reading
      ) AS reading
      WINDOW source AS (PARTITION BY ${source}), in_order AS (PARTITION BY ${source} ORDER BY at)
    ) AS reading
    WHERE is_first OR is_last OR restarts OR after_gap OR gap_follows
    ORDER BY ${source}, at`;
}

function withoutResolution(row: MetricScrape & { resolution: number }): MetricScrape {
  const { resolution: _, ...scrape } = row;
  return scrape;
}

function toScrape(clusterId: ClusterId, row: ScrapeRow): MetricScrape {
  return {
    clusterId,
    brokerId: row.broker_id,
    at: row.at,
    afterGap: row.after_gap,
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
