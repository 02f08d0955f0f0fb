import { expect, test } from "vitest";
import {
  decodeBlocks,
  encodeReadings,
  type ReadingLayout,
  readingsOf,
  type StoredReading,
} from "./metric-codec.ts";

/** Around the limits of the codec's columns and of 64 bits. */
const EDGES = [0n, 1n, 2n ** 50n - 1n, 2n ** 50n, 2n ** 53n + 1n, 2n ** 63n - 1n];

/** Random whole numbers below `bound`, the same for each seed (mulberry32). */
function randomOf(seed: number): (bound: number) => number {
  let state = seed;
  return (bound) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % bound;
  };
}

function randomReadings(seed: number): StoredReading[] {
  const random = randomOf(seed);
  const layout = {
    counters: Array.from({ length: random(4) }, (_, index) => `c${index}`),
    boundsUs: Array.from({ length: random(4) }, () => random(1_000)),
    ...{ produce: random(4), fetch: random(4) },
  };
  const size = layout.counters.length + layout.produce + layout.fetch;
  const value = () => (random(2) ? BigInt(random(1_000)) : (EDGES[random(EDGES.length)] ?? 0n));
  return Array.from({ length: random(60) }, () => ({
    source: ["0", "orders", "a b", "é"][random(4)] ?? "",
    brokerId: random(3),
    atMs: random(2) * Date.UTC(2100, 0) + random(1_000),
    afterGap: random(2) === 1,
    layout,
    values: Array.from({ length: size }, value),
  }));
}

const keyOf = ({ source, brokerId }: StoredReading) => `${brokerId} ${source}`;

test("readings come back to the last digit, in their order within source and broker", () => {
  for (let seed = 0; seed < 300; seed += 1) {
    const stored = randomReadings(seed);
    const bytes = encodeReadings(stored);
    const read = decodeBlocks(bytes, new Date(0)).flatMap(readingsOf);
    expect(read).toHaveLength(stored.length);
    for (const key of new Set(stored.map(keyOf))) {
      const of = (all: readonly StoredReading[]) => all.filter((each) => keyOf(each) === key);
      expect(of(read)).toEqual(of(stored));
    }
    const orders = decodeBlocks(bytes, new Date(0), "orders").flatMap(readingsOf);
    expect(orders).toEqual(read.filter(({ source }) => source === "orders"));
  }
});

test("readings with other buckets, from before an upgrade, keep them", () => {
  const reading = (layout: ReadingLayout, atMs: number, counts: bigint[]): StoredReading => {
    return { source: "0", brokerId: 0, atMs, afterGap: false, layout, values: counts };
  };
  const stored = [
    reading({ counters: ["a"], boundsUs: [500], produce: 2, fetch: 0 }, 1, [1n, 2n, 3n]),
    reading({ counters: ["a"], boundsUs: [], produce: 1, fetch: 1 }, 2, [4n, 5n, 6n]),
  ];
  expect(decodeBlocks(encodeReadings(stored), new Date(0)).flatMap(readingsOf)).toEqual(stored);
});

test("damaged bytes are an error, not readings", () => {
  const layout = { counters: ["a"], boundsUs: [], produce: 0, fetch: 0 };
  const one = { source: "t", brokerId: 0, atMs: 5, afterGap: false, layout, values: [7n] };
  const bytes = encodeReadings([one]);
  expect(() => decodeBlocks(bytes.subarray(0, -1), new Date(0))).toThrow(RangeError);
  expect(() => decodeBlocks(new Uint8Array([9]), new Date(0))).toThrow("unknown format");
});

test("half an hour of a broker's steady traffic takes few bytes per reading", () => {
  const layout = { counters: ["bytes", "records"], boundsUs: [], produce: 28, fetch: 28 };
  const hour = Array.from({ length: 180 }, (_, index): StoredReading => {
    const requests = BigInt(index * 1_000 + ((index * 7_919) % 97));
    const buckets = Array.from({ length: 28 }, (_, at) => (requests * BigInt(at + 1)) / 28n);
    const values = [requests * 10_000n, requests * 100n, ...buckets, ...buckets];
    return { source: "0", brokerId: 0, atMs: index * 10_000, afterGap: false, layout, values };
  });
  expect(encodeReadings(hour).length / hour.length).toBeLessThan(60);
});
