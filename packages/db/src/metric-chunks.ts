import { setImmediate } from "node:timers/promises";
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

/** A chunk to be stored; its data in hexadecimal. */
interface EncodedChunk {
  readonly source: string;
  readonly data: string;
}

/** The time that the readings of a chunk lie in, for one kind of readings. */
interface Window {
  readonly kind: ReadingKind;
  readonly resolution: MetricResolution;
  readonly at: Date;
}

/** Readings arrive this late at most in general; later ones are merged into the chunk that is there. */
const LATE_MS = 60_000;
/** Of one transaction: one with thousands of topics takes seconds. */
const WINDOWS_MAX = 1;
/** Decoding and encoding keeps the process from anything else for so long at most, such as reading other clusters. */
const TURN_MS_MAX = 10;
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
      SELECT kind, resolution, to_timestamp(number * width) AS at
      FROM (
        SELECT DISTINCT kind, resolution, width, floor(extract(epoch FROM at) / width) AS number
        FROM metric_reading JOIN (VALUES ${widths}) AS chunk (of, width) ON chunk.of = resolution
        WHERE cluster_id = ${this.#clusterId}
      ) AS windows
      WHERE to_timestamp((number + 1) * width) <= ${new Date(now.getTime() - LATE_MS)}
      ORDER BY number * width, kind`;
  }

  async #replace(window: Window): Promise<void> {
    const { kind, resolution, at } = window;
    const end = new Date(at.getTime() + METRIC_CHUNK_SECONDS[resolution] * 1_000);
    const removed = await this.#client.$queryRaw<ReadingRow[]>`
      DELETE FROM metric_reading
      WHERE cluster_id = ${this.#clusterId} AND kind = ${kind} AND resolution = ${resolution}::int
        AND at >= ${at} AND at < ${end}
      RETURNING at, data`;
    const present = await this.#client.$queryRaw<ReadingRow[]>`
      SELECT at, data FROM metric_chunk
      WHERE cluster_id = ${this.#clusterId} AND kind = ${kind}
        AND resolution = ${resolution}::int AND at = ${at}`;
    const turns = new Turns();
    const rows: EncodedChunk[] = [];
    for (const [source, readings] of await bySource([...present, ...removed], turns)) {
      const data = Buffer.from(encodeReadings(inOrder(readings))).toString("hex");
      rows.push({ source, data });
      await turns.offer();
    }
    for (let begin = 0; begin < rows.length; begin += ROWS_MAX) {
      await this.#write(window, rows.slice(begin, begin + ROWS_MAX));
    }
  }

  async #write({ kind, resolution, at }: Window, rows: readonly EncodedChunk[]): Promise<void> {
    await this.#client.$executeRaw`
      INSERT INTO metric_chunk (cluster_id, kind, source, resolution, at, data)
      SELECT ${this.#clusterId}, ${kind}, source, ${resolution}::int, ${at}, decode(hex, 'hex')
      FROM unnest(${rows.map(({ source }) => source)}::text[], ${rows.map(({ data }) => data)}::text[])
        AS made (source, hex)
      ON CONFLICT (cluster_id, kind, source, at, resolution) DO UPDATE SET data = excluded.data`;
  }
}

/** Lets other work of the process run between pieces of long work. */
class Turns {
  #since = performance.now();

  async offer(): Promise<void> {
    if (performance.now() - this.#since < TURN_MS_MAX) return;
    await setImmediate();
    this.#since = performance.now();
  }
}

async function bySource(
  rows: readonly ReadingRow[],
  turns: Turns,
): Promise<Map<string, StoredReading[]>> {
  const sources = new Map<string, StoredReading[]>();
  for (const { at, data } of rows) {
    for (const reading of decodeBlocks(data, at).flatMap(readingsOf)) {
      const same = sources.get(reading.source);
      if (same) same.push(reading);
      else sources.set(reading.source, [reading]);
    }
    await turns.offer();
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
