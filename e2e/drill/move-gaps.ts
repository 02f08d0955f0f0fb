/** How long a partition goes without an acknowledgement when it moves, and at other times. */

/** A partition that was moved. Times are Unix time in ms. */
export interface Move {
  partition: number;
  requestedAt: number;
  /** The new leader was seen in the metadata. */
  completedAt: number;
}

/** What happens in so many milliseconds from the request, and until the move is done, is counted as the move's. */
export const WINDOW_MS = 2_000;

/** The longest gap of a move. */
export function gapOf(acked: readonly number[], { requestedAt, completedAt }: Move): number {
  return longestGap(acked, requestedAt, Math.max(requestedAt + WINDOW_MS, completedAt));
}

/**
 * The longest time between two successive acknowledgements that is at least partly within the window between two times. A gap
 * that begins or ends outside the window counts in full.
 *
 * @param acked the times of a partition's acknowledgements, ascending.
 * @returns infinity if nothing was acknowledged after the window began.
 */
function longestGap(acked: readonly number[], from: number, to: number): number {
  const first = firstAfter(acked, from);
  if (first === acked.length) return Number.POSITIVE_INFINITY;
  let longest = 0;
  for (let at = Math.max(1, first); at < acked.length; at++) {
    const before = acked[at - 1]!;
    if (before > to) break;
    longest = Math.max(longest, acked[at]! - before);
  }
  return longest;
}

/** How long after a time the next acknowledgement came. */
export function delayAfter(acked: readonly number[], time: number): number {
  return (acked[firstAfter(acked, time)] ?? Number.POSITIVE_INFINITY) - time;
}

/** Gaps of windows side by side in a time without moves. */
export function gapsBetween(acked: readonly number[], from: number, to: number): number[] {
  const windows = Math.floor((to - from) / WINDOW_MS);
  return Array.from({ length: windows }, (_, window) => {
    const begin = from + window * WINDOW_MS;
    return longestGap(acked, begin, begin + WINDOW_MS);
  });
}

/** The index of the first time after `from`. */
function firstAfter(times: readonly number[], from: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (times[middle]! > from) high = middle;
    else low = middle + 1;
  }
  return low;
}
