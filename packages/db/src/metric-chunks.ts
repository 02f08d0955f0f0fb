import {
  type ClusterId,
  METRIC_CHUNK_SECONDS,
  METRIC_RESOLUTIONS,
  type MetricResolution,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import { Prisma } from "./generated/client.ts";
import { decodeBlocks, encodeReadings, readingsOf, type StoredReading } from "./metric-codec.ts";
import type { ReadingKind } from "./stored-readings.ts";

export interface ReadingRow {
  readonly at: Date;
  readonly data: Uint8Array;
}

type KindRow = ReadingRow & { readonly kind: ReadingKind };
type ChunkRow = KindRow & { readonly source: string };

/** The time that the readings of a chunk lie in. */
interface Window {
  readonly resolution: MetricResolution;
  readonly at: Date;
}

/** Readings arrive this late at most in general; later ones are merged into the chunk that is there. */
const LATE_MS = 60_000;
/** Chunk times of one transaction: one of thousands of topics takes seconds. */
const WINDOWS_MAX = 1;
/** Rows of one statement. */
const ROWS_MAX = 500;

/** Replaces one cluster's readings by chunks. To be used within a transaction. */
export class ChunkStore {
  readonly #client: Client;
  readonly #clusterId: ClusterId;

  constructor(client: Client, clusterId: ClusterId) {
    this.#client = client;
    this.#clusterId = clusterId;
  }

  /** Where the time of the chunk begins that has the readings of this time. */
  static beginOf(resolution: MetricResolution, at: Date): Date {
    const widthMs = METRIC_CHUNK_SECONDS[resolution] * 1_000;
    return new Date(Math.floor(at.getTime() / widthMs) * widthMs);
  }

  async compact(now: Date): Promise<boolean> {
    // Two workers at once would each replace the other's chunk by one that lacks its readings.
    await this.#client.$queryRaw`
      SELECT 1 FROM pg_advisory_xact_lock(hashtextextended('chunks ' || ${this.#clusterId}, 0))`;
    const windows = await this.#finished(now);
    for (const window of windows.slice(0, WINDOWS_MAX)) await this.#replace(window);
    return windows.length > WINDOWS_MAX;
  }

  /** Windows that are over and have readings outside of chunks, oldest first. */
  async #finished(now: Date): Promise<Window[]> {
    const widths = Prisma.join(
      METRIC_RESOLUTIONS.map(
        (each) => Prisma.sql`(${each}::int, ${METRIC_CHUNK_SECONDS[each]}::int)`,
      ),
    );
    return this.#client.$queryRaw<Window[]>`
      SELECT resolution, to_timestamp(number * width) AS at
      FROM (
        SELECT DISTINCT resolution, width, floor(extract(epoch FROM at) / width) AS number
        FROM metric_reading JOIN (VALUES ${widths}) AS chunk (of, width) ON chunk.of = resolution
        WHERE cluster_id = ${this.#clusterId}
      ) AS windows
      WHERE to_timestamp((number + 1) * width) <= ${new Date(now.getTime() - LATE_MS)}
      ORDER BY number * width`;
  }

  async #replace(window: Window): Promise<void> {
    const { resolution, at } = window;
    const end = new Date(at.getTime() + METRIC_CHUNK_SECONDS[resolution] * 1_000);
    const removed = await this.#client.$queryRaw<KindRow[]>`
      DELETE FROM metric_reading
      WHERE cluster_id = ${this.#clusterId} AND resolution = ${resolution}::int
        AND at >= ${at} AND at < ${end}
      RETURNING kind, at, data`;
    const kinds = new Set(removed.map(({ kind }) => kind));
    const present = await this.#client.$queryRaw<ChunkRow[]>`
      SELECT kind, source, at, data FROM metric_chunk
      WHERE cluster_id = ${this.#clusterId} AND kind = ANY(${[...kinds]}::text[])
        AND resolution = ${resolution}::int AND at = ${at}`;
    const rows = [...kinds].flatMap((kind) => {
      const ofKind = [...present, ...removed].filter((row) => row.kind === kind);
      return [...bySource(ofKind)].map(([source, readings]) => ({
        kind,
        source,
        data: Buffer.from(encodeReadings(inOrder(readings))).toString("hex"),
      }));
    });
    for (let begin = 0; begin < rows.length; begin += ROWS_MAX) {
      await this.#write(window, rows.slice(begin, begin + ROWS_MAX));
    }
  }

  async #write(
    { resolution, at }: Window,
    rows: readonly { kind: ReadingKind; source: string; data: string }[],
  ): Promise<void> {
    await this.#client.$executeRaw`
      INSERT INTO metric_chunk (cluster_id, kind, source, resolution, at, data)
      SELECT ${this.#clusterId}, kind, source, ${resolution}::int, ${at}, decode(hex, 'hex')
      FROM unnest(${rows.map(({ kind }) => kind)}::text[], ${rows.map(({ source }) => source)}::text[],
        ${rows.map(({ data }) => data)}::text[]) AS made (kind, source, hex)
      ON CONFLICT (cluster_id, kind, source, at, resolution) DO UPDATE SET data = excluded.data`;
  }
}

function bySource(rows: readonly ReadingRow[]): Map<string, StoredReading[]> {
  const sources = new Map<string, StoredReading[]>();
  for (const reading of rows
    .flatMap(({ at, data }) => decodeBlocks(data, at))
    .flatMap(readingsOf)) {
    const same = sources.get(reading.source);
    if (same) same.push(reading);
    else sources.set(reading.source, [reading]);
  }
  return sources;
}

/** In order of (broker, time), each reading once. */
function inOrder(readings: StoredReading[]): StoredReading[] {
  return readings
    .sort((a, b) => a.brokerId - b.brokerId || a.atMs - b.atMs)
    .filter(({ brokerId, atMs }, index, sorted) => {
      const before = sorted[index - 1];
      return brokerId !== before?.brokerId || atMs !== before.atMs;
    });
}
