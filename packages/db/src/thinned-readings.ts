import { type ReadingBlock, readingAt, type StoredReading } from "./metric-codec.ts";

export interface Thinning {
  /** Begin included, end excluded. */
  readonly from: Date;
  readonly to: Date;
  readonly stepSeconds: number;
  /** A counter that shrinks when the broker restarts; a gauge has none. */
  readonly totalAt?: (block: ReadingBlock, index: number) => number;
}

/** Where a reading is, and what decides whether it is taken. */
interface Place {
  readonly block: ReadingBlock;
  readonly index: number;
  readonly atMs: number;
}

/**
 * One reading of each stretch of `stepSeconds`, in order of (source, broker, time): the last one of a gauge, and the first one of
 * counters. Stored readings begin stretches of their resolution (`resolutionAt`), so the first one is at the border between two
 * points, and the last one some seconds before. Counters are cumulative, so nothing is lost by leaving out those between, but for
 * these, which are there too: the very last one; each last one before a broker restarted and its counters were reset; and the two
 * at the ends of a gap.
 */
export function thinned(blocks: readonly ReadingBlock[], thinning: Thinning): StoredReading[] {
  const bySource = new Map<string, ReadingBlock[]>();
  for (const block of blocks) {
    const key = `${block.source} ${`${block.brokerId}`.padStart(10, "0")}`;
    const same = bySource.get(key);
    if (same) same.push(block);
    else bySource.set(key, [block]);
  }
  const keys = [...bySource.keys()].sort();
  return keys.flatMap((key) => {
    const places = placesOf(bySource.get(key) ?? [], thinning);
    return places
      .filter((_, index) => isTaken(places, index, thinning))
      .map(({ block, index }) => readingAt(block, index));
  });
}

/** In order of time, each time once: a reading may have been stored at two resolutions. */
function placesOf(blocks: readonly ReadingBlock[], { from, to }: Thinning): Place[] {
  const places = blocks.flatMap((block) =>
    block.timesMs.map((atMs, index): Place => ({ block, index, atMs })),
  );
  return places
    .filter(({ atMs }) => atMs >= from.getTime() && atMs < to.getTime())
    .sort((a, b) => a.atMs - b.atMs)
    .filter(({ atMs }, index, sorted) => atMs !== sorted[index - 1]?.atMs);
}

function isTaken(
  places: readonly Place[],
  index: number,
  { stepSeconds, totalAt }: Thinning,
): boolean {
  const place = places[index];
  if (place === undefined) return false;
  const [before, next] = [places[index - 1], places[index + 1]];
  if (next === undefined) return true;
  const stretchOf = ({ atMs }: Place) => Math.floor(atMs / (stepSeconds * 1_000));
  if (totalAt === undefined) return stretchOf(place) !== stretchOf(next);
  if (before === undefined || stretchOf(place) !== stretchOf(before)) return true;
  if (followsGap(place) || followsGap(next)) return true;
  return totalAt(place.block, place.index) > totalAt(next.block, next.index);
}

function followsGap({ block, index }: Place): boolean {
  return block.afterGap[index] ?? false;
}
