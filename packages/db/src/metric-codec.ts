/**
 * How readings of metrics are stored. A stored value holds blocks. A block has the readings that one broker gave of one source
 * in one layout, column by column:
 *
 *     format     1 byte: 1 as it is, 2 the rest is compressed with Zstandard, "[" JSON as the migration metric_chunks wrote it
 *     header     length, then JSON: the layouts, and per block its source, broker, layout, number of readings and length
 *     per block  times in ms, then whether each reading follows a gap, then the columns of the layout
 *     column     1 byte: 0 for numbers below 2^50, 1 for any; then the first value, and each next one as the difference to it
 *
 * Histogram buckets are cumulative over their bounds; a column holds what its bucket has more than the one before.
 */
import { zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { ByteReader, ByteWriter, NARROW_MAX } from "./byte-stream.ts";

/** What the values of a reading are: counters by name, then the buckets of produces, then those of fetches. */
export interface ReadingLayout {
  readonly counters: readonly string[];
  readonly boundsUs: readonly number[];
  readonly produce: number;
  readonly fetch: number;
}

export interface StoredReading {
  /** The broker's id, the topic or the group. */
  readonly source: string;
  readonly brokerId: number;
  readonly atMs: number;
  readonly afterGap: boolean;
  readonly layout: ReadingLayout;
  readonly values: readonly bigint[];
}

type Column = readonly number[] | readonly bigint[];

/** Readings of one source by one broker, decoded no further than a query needs. */
export interface ReadingBlock {
  readonly source: string;
  readonly brokerId: number;
  readonly layout: ReadingLayout;
  readonly timesMs: readonly number[];
  readonly afterGap: readonly boolean[];
  readonly columns: readonly Column[];
}

/** `bytes` lets a reader skip the blocks of other sources. */
type BlockHeader = readonly [
  source: string,
  brokerId: number,
  layout: number,
  readings: number,
  bytes: number,
];

interface Header {
  readonly layouts: readonly ReadingLayout[];
  readonly blocks: readonly BlockHeader[];
}

const FORMAT_PLAIN = 1;
const FORMAT_ZSTD = 2;
const FORMAT_JSON = "[".charCodeAt(0);
const COLUMN_NARROW = 0;
const COLUMN_WIDE = 1;
/** The difference of two numbers of a narrow column is still below `NARROW_MAX`. */
const NARROW_VALUE_MAX = BigInt(NARROW_MAX / 2);
/** Single readings are not worth the time that compression takes. */
const COMPRESSED_FROM_BYTES = 2_048;

/** In the order of the readings within each source and broker. */
export function encodeReadings(readings: readonly StoredReading[]): Uint8Array {
  const layouts = new Map<string, { index: number; layout: ReadingLayout }>();
  const layoutOf = memoized((layout: ReadingLayout) => {
    const key = JSON.stringify(layout);
    const known = layouts.get(key) ?? { index: layouts.size, layout };
    layouts.set(key, known);
    return known.index;
  });
  const blocks = new Map<string, StoredReading[]>();
  for (const reading of readings) {
    const key = `${reading.brokerId} ${layoutOf(reading.layout)} ${reading.source}`;
    const block = blocks.get(key);
    if (block) block.push(reading);
    else blocks.set(key, [reading]);
  }
  const content = new ByteWriter();
  const headers: BlockHeader[] = [];
  for (const block of blocks.values()) {
    const [first] = block;
    if (first === undefined) continue;
    const begin = content.length;
    writeBlock(content, block, first.layout);
    const bytes = content.length - begin;
    const layout = layoutOf(first.layout);
    headers.push([first.source, first.brokerId, layout, block.length, bytes]);
  }
  const header: Header = {
    layouts: [...layouts.values()].map(({ layout }) => layout),
    blocks: headers,
  };
  const writer = new ByteWriter();
  const text = new TextEncoder().encode(JSON.stringify(header));
  writer.integer(text.length);
  writer.bytes(text);
  writer.bytes(content.finish());
  return framed(writer.finish());
}

function framed(body: Uint8Array): Uint8Array {
  const compressed = body.length >= COMPRESSED_FROM_BYTES;
  const content = compressed ? zstdCompressSync(body) : body;
  const bytes = new Uint8Array(content.length + 1);
  bytes[0] = compressed ? FORMAT_ZSTD : FORMAT_PLAIN;
  bytes.set(content, 1);
  return bytes;
}

/**
 * The readings of a row, or those of one source; `at` is the row's own time, for texts that hold none. Throws where the bytes
 * are damaged.
 */
export function decodeBlocks(bytes: Uint8Array, at: Date, source?: string): ReadingBlock[] {
  const content = bytes.subarray(1);
  switch (bytes[0]) {
    case FORMAT_PLAIN:
      return readBlocks(new ByteReader(content), source);
    case FORMAT_ZSTD:
      return readBlocks(new ByteReader(zstdDecompressSync(content)), source);
    case FORMAT_JSON:
      return jsonBlocks(new TextDecoder().decode(bytes), at).filter(
        (block) => source === undefined || block.source === source,
      );
    default:
      throw new Error(`readings of metrics have the unknown format ${bytes[0]}`);
  }
}

/** Every reading of a block. */
export function readingsOf(block: ReadingBlock): StoredReading[] {
  return block.timesMs.map((_, index) => readingAt(block, index));
}

export function readingAt(block: ReadingBlock, index: number): StoredReading {
  const { source, brokerId, layout } = block;
  const values = block.columns.map((column) => BigInt(column[index] ?? 0));
  for (const [begin, length] of histograms(layout)) {
    for (let bucket = begin + 1; bucket < begin + length; bucket += 1) {
      values[bucket] = (values[bucket] ?? 0n) + (values[bucket - 1] ?? 0n);
    }
  }
  const afterGap = block.afterGap[index] ?? false;
  return { source, brokerId, layout, atMs: block.timesMs[index] ?? 0, afterGap, values };
}

/** Which columns the histograms are: the first one and how many. */
function histograms({ counters, produce, fetch }: ReadingLayout): [number, number][] {
  return [
    [counters.length, produce],
    [counters.length + produce, fetch],
  ];
}

function writeBlock(
  writer: ByteWriter,
  block: readonly StoredReading[],
  layout: ReadingLayout,
): void {
  let beforeMs = 0;
  for (const { atMs } of block) {
    writer.integer(atMs - beforeMs);
    beforeMs = atMs;
  }
  for (const { afterGap } of block) writer.byte(afterGap ? 1 : 0);
  const firstBuckets = new Set(histograms(layout).map(([begin]) => begin));
  const count = layout.counters.length + layout.produce + layout.fetch;
  for (let index = 0; index < count; index += 1) {
    const isDifference = index > layout.counters.length && !firstBuckets.has(index);
    const column = block.map(({ values }) => {
      const value = values[index] ?? 0n;
      return isDifference ? value - (values[index - 1] ?? 0n) : value;
    });
    writeColumn(writer, column);
  }
}

function writeColumn(writer: ByteWriter, column: readonly bigint[]): void {
  const isNarrow = column.every((value) => value < NARROW_VALUE_MAX && value > -NARROW_VALUE_MAX);
  writer.byte(isNarrow ? COLUMN_NARROW : COLUMN_WIDE);
  if (isNarrow) {
    let before = 0;
    for (const value of column.map(Number)) {
      writer.integer(value - before);
      before = value;
    }
    return;
  }
  let before = 0n;
  for (const value of column) {
    writer.bigInteger(value - before);
    before = value;
  }
}

function readBlocks(reader: ByteReader, wanted: string | undefined): ReadingBlock[] {
  const text = new TextDecoder().decode(reader.bytes(reader.integer()));
  const { layouts, blocks } = JSON.parse(text) as Header;
  return blocks.flatMap(([source, brokerId, layoutIndex, readings, length]) => {
    const bytes = reader.bytes(length);
    if (wanted !== undefined && source !== wanted) return [];
    const layout = layouts[layoutIndex];
    if (layout === undefined) throw new Error("a block of readings lacks its layout");
    return [{ source, brokerId, layout, ...readBlock(new ByteReader(bytes), layout, readings) }];
  });
}

function readBlock(reader: ByteReader, layout: ReadingLayout, readings: number) {
  const timesMs = reader.sums(readings);
  const afterGap = Array.from({ length: readings }, () => reader.byte() === 1);
  const count = layout.counters.length + layout.produce + layout.fetch;
  const columns = Array.from({ length: count }, () => readColumn(reader, readings));
  return { timesMs, afterGap, columns };
}

function readColumn(reader: ByteReader, readings: number): Column {
  if (reader.byte() === COLUMN_NARROW) return reader.sums(readings);
  let value = 0n;
  return Array.from({ length: readings }, () => {
    value += reader.bigInteger();
    return value;
  });
}

type JsonReading = Omit<StoredReading, "atMs" | "values"> & { readonly values: readonly string[] };

function jsonBlocks(text: string, at: Date): ReadingBlock[] {
  return (JSON.parse(text) as JsonReading[]).map(({ values, afterGap, ...rest }) => {
    const numbers = values.map(BigInt);
    const firstBuckets = new Set(histograms(rest.layout).map(([begin]) => begin));
    const columns = numbers.map((value, index) => {
      const isDifference = index > rest.layout.counters.length && !firstBuckets.has(index);
      return [isDifference ? value - (numbers[index - 1] ?? 0n) : value];
    });
    return { ...rest, timesMs: [at.getTime()], afterGap: [afterGap], columns };
  });
}

/** Layouts are mostly the same object: their text is made once. */
function memoized<K extends object, V>(make: (key: K) => V): (key: K) => V {
  const known = new Map<K, V>();
  return (key) => {
    const value = known.get(key) ?? make(key);
    known.set(key, value);
    return value;
  };
}
