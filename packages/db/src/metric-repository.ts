import {
  type ClusterId,
  type LagSample,
  METRIC_CHUNK_SECONDS,
  METRIC_RESOLUTIONS,
  type MetricResolution,
  type MetricScrape,
  resolutionFor,
  type TopicScrape,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import { Prisma } from "./generated/client.ts";
import { ChunkStore, type ReadingRow } from "./metric-chunks.ts";
import {
  decodeBlocks,
  encodeReadings,
  type ReadingBlock,
  readingsOf,
  type StoredReading,
} from "./metric-codec.ts";
import {
  brokerOf,
  lagOf,
  type ReadingKind,
  requestsAt,
  storedBroker,
  storedLag,
  storedTopic,
  topicBytesAt,
  topicOf,
} from "./stored-readings.ts";
import { thinned } from "./thinned-readings.ts";

/** A stretch of time, begin included, end excluded. */
export interface TimeRange {
  readonly from: Date;
  readonly to: Date;
}

/** What was read at one time, of one cluster or of several. */
export interface MetricReadings {
  readonly resolution: MetricResolution;
  readonly brokers?: readonly MetricScrape[];
  readonly topics?: readonly TopicScrape[];
  readonly lag?: readonly LagSample[];
}

/** Which rows a query takes. */
interface Selection {
  readonly clusterId: ClusterId;
  readonly kind: ReadingKind;
  /** One broker, topic or group. */
  readonly source?: string | undefined;
  readonly brokerId?: number | undefined;
}

/** A cluster that is read was read within this time; its newest reading is found without looking at every partition. */
const RECENT = Prisma.sql`now() - interval '1 hour'`;

/** Readings of brokers. Writing the same reading twice changes nothing. */
export class MetricRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Stores all of it or nothing. Throws where the partition of a reading has not been prepared. */
  async add(readings: readonly MetricReadings[]): Promise<void> {
    const rows = readings.flatMap((each) => [
      ...rowsOf(each.resolution, "broker", each.brokers ?? [], storedBroker),
      ...rowsOf(each.resolution, "topics", each.topics ?? [], storedTopic),
      ...rowsOf(each.resolution, "groups", each.lag ?? [], storedLag),
    ]);
    if (rows.length === 0) return;
    // Prisma's createMany is planned again for each number of rows, which takes longer than the statement itself.
    const column = <T>(of: (row: (typeof rows)[number]) => T) => rows.map(of);
    await this.#client.$executeRaw`
      INSERT INTO metric_reading (cluster_id, kind, broker_id, resolution, at, data)
      SELECT cluster_id, kind, broker_id, resolution, at, decode(hex, 'hex')
      FROM unnest(${column((row) => row.clusterId)}::text[], ${column((row) => row.kind)}::text[],
        ${column((row) => row.brokerId)}::int[], ${column((row) => row.resolution)}::int[],
        ${column((row) => row.at.toISOString())}::timestamptz[], ${column((row) => row.data)}::text[])
        AS added (cluster_id, kind, broker_id, resolution, at, hex)
      ON CONFLICT DO NOTHING`;
  }

  /**
   * Readings of one cluster, or of one of its brokers, in order of (broker, time): one of each stretch of
   * `stepSeconds`, and those around restarts and gaps.
   */
  async scrapes(
    clusterId: ClusterId,
    range: TimeRange,
    stepSeconds: number,
    brokerId?: number,
  ): Promise<MetricScrape[]> {
    const source = brokerId === undefined ? undefined : `${brokerId}`;
    const selection: Selection = { clusterId, kind: "broker", source, brokerId };
    const blocks = await this.#blocks(selection, range, stepSeconds);
    const readings = thinned(blocks, { ...range, stepSeconds, totalAt: requestsAt });
    return readings
      .map((reading) => brokerOf(clusterId, reading))
      .sort((a, b) => a.brokerId - b.brokerId);
  }

  /** The last stored reading of a cluster, or of one of its brokers; nothing is stored for longer than 400 days. */
  async newest(clusterId: ClusterId, brokerId?: number): Promise<MetricScrape | undefined> {
    const ofBroker =
      brokerId === undefined ? Prisma.empty : Prisma.sql`AND broker_id = ${brokerId}::int`;
    const ofSource =
      brokerId === undefined ? Prisma.empty : Prisma.sql`AND source = ${`${brokerId}`}`;
    const readingsSince = (from: Prisma.Sql) => (resolution: MetricResolution) =>
      Prisma.sql`
      (SELECT at, data FROM metric_reading
       WHERE cluster_id = ${clusterId} AND kind = 'broker' AND resolution = ${resolution}::int
         AND at >= ${from} ${ofBroker} ORDER BY at DESC LIMIT 1)`;
    const chunks = (resolution: MetricResolution) => Prisma.sql`
      (SELECT at, data FROM metric_chunk
       WHERE cluster_id = ${clusterId} AND kind = 'broker' AND resolution = ${resolution}::int
         ${ofSource} ORDER BY at DESC LIMIT 1)`;
    const selects = [readingsSince(RECENT), readingsSince(Prisma.sql`'-infinity'`), chunks];
    for (const select of selects) {
      const rows = await this.#client.$queryRaw<ReadingRow[]>(
        Prisma.join(METRIC_RESOLUTIONS.map(select), " UNION ALL "),
      );
      const readings = rows.flatMap(({ at, data }) => decodeBlocks(data, at)).flatMap(readingsOf);
      const [newest] = readings.sort((a, b) => b.atMs - a.atMs);
      if (newest) return brokerOf(clusterId, newest);
    }
    return undefined;
  }

  /** As `scrapes`, of one topic, or of all in order of (topic, broker, time). */
  async topicScrapes(
    clusterId: ClusterId,
    topic: string | undefined,
    range: TimeRange,
    stepSeconds: number,
  ): Promise<TopicScrape[]> {
    const selection: Selection = { clusterId, kind: "topics", source: topic };
    const blocks = await this.#blocks(selection, range, stepSeconds);
    const readings = thinned(blocks, { ...range, stepSeconds, totalAt: topicBytesAt });
    return readings.map((reading) => topicOf(clusterId, reading));
  }

  /**
   * Lag of every group of one cluster, or of one group, in order of (group, time): the last reading of each stretch of
   * `stepSeconds`.
   */
  async lag(
    clusterId: ClusterId,
    range: TimeRange,
    stepSeconds: number,
    groupId?: string,
  ): Promise<LagSample[]> {
    const selection: Selection = { clusterId, kind: "groups", source: groupId };
    const blocks = await this.#blocks(selection, range, stepSeconds);
    return thinned(blocks, { ...range, stepSeconds }).map((each) => lagOf(clusterId, each));
  }

  /**
   * At most so many readings of each broker the chunks hold that a query takes; those that are in no chunk yet are of the
   * last hours.
   */
  async countUpTo(
    { clusterId, kind, source }: Selection,
    { from, to }: TimeRange,
    stepSeconds: number,
  ): Promise<number> {
    const ofSource = source === undefined ? Prisma.empty : Prisma.sql`AND source = ${source}`;
    const counts = resolutionsFrom(stepSeconds).map((resolution) => {
      const readings = METRIC_CHUNK_SECONDS[resolution] / resolution;
      return Prisma.sql`
        SELECT count(*)::int * ${readings}::int AS readings FROM metric_chunk
        WHERE cluster_id = ${clusterId} AND kind = ${kind} AND resolution = ${resolution}::int
          AND at >= ${ChunkStore.beginOf(resolution, from)} AND at < ${to} ${ofSource}`;
    });
    const rows = await this.#client.$queryRaw<{ readings: number }[]>(
      Prisma.join(counts, " UNION ALL "),
    );
    return rows.reduce((sum, { readings }) => sum + readings, 0);
  }

  /**
   * Puts the cluster's readings of times that are over into chunks, a bounded number of them; whether more is left to be done.
   * Readings that come later are added to their chunk.
   */
  async compact(clusterId: ClusterId, now: Date): Promise<boolean> {
    return new ChunkStore(this.#client, clusterId).compact(now);
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

  /** Chunks and single readings in one statement: none is seen twice or not at all while a chunk is made. */
  async #blocks(
    { clusterId, kind, source, brokerId }: Selection,
    { from, to }: TimeRange,
    stepSeconds: number,
  ): Promise<ReadingBlock[]> {
    const ofSource = source === undefined ? Prisma.empty : Prisma.sql`AND source = ${source}`;
    const ofBroker =
      brokerId === undefined ? Prisma.empty : Prisma.sql`AND broker_id = ${brokerId}::int`;
    const selects = resolutionsFrom(stepSeconds).map((resolution) => {
      const chunkFrom = ChunkStore.beginOf(resolution, from);
      return Prisma.sql`
        SELECT at, data FROM metric_chunk
        WHERE cluster_id = ${clusterId} AND kind = ${kind} AND resolution = ${resolution}::int
          AND at >= ${chunkFrom} AND at < ${to} ${ofSource}
        UNION ALL
        SELECT at, data FROM metric_reading
        WHERE cluster_id = ${clusterId} AND kind = ${kind} AND resolution = ${resolution}::int
          AND at >= ${from} AND at < ${to} ${ofBroker}`;
    });
    const rows = await this.#client.$queryRaw<ReadingRow[]>(Prisma.join(selects, " UNION ALL "));
    return rows.flatMap(({ at, data }) => decodeBlocks(data, at, source));
  }
}

/** One row for all readings of one broker at one time. */
function rowsOf<T extends { clusterId: ClusterId; brokerId?: number; at: Date }>(
  resolution: MetricResolution,
  kind: ReadingKind,
  readings: readonly T[],
  stored: (reading: T) => StoredReading,
) {
  const groups = new Map<string, T[]>();
  for (const reading of readings) {
    const key = `${reading.clusterId} ${reading.brokerId} ${reading.at.getTime()}`;
    const group = groups.get(key);
    if (group) group.push(reading);
    else groups.set(key, [reading]);
  }
  return [...groups.values()].flatMap((group) =>
    group.slice(0, 1).map(({ clusterId, brokerId = 0, at }) => {
      const data = Buffer.from(encodeReadings(group.map(stored))).toString("hex");
      return { clusterId, kind, brokerId, resolution, at, data };
    }),
  );
}

/**
 * The resolutions whose readings a query with this step takes. One statement for each, because the planner leaves out
 * partitions of other times only where the resolution is one value.
 */
function resolutionsFrom(stepSeconds: number): MetricResolution[] {
  const finest = resolutionFor(stepSeconds);
  return METRIC_RESOLUTIONS.filter((resolution) => resolution >= finest);
}
