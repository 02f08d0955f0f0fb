/** How long readings are kept: at one every two seconds about 26 MiB per broker and day. */
export const RETENTION_MS = 48 * 60 * 60 * 1_000;

export interface PrunableReadings {
  /** Removes some of what is older than `limit`; the number of rows removed, 0 when none is left. */
  deleteBefore(limit: Date): Promise<number>;
}

/** Removes what is older than the retention; ends early when `signal` is aborted. */
export async function applyRetention(
  readings: PrunableReadings,
  now: Date,
  signal?: AbortSignal,
): Promise<number> {
  const limit = new Date(now.getTime() - RETENTION_MS);
  let removed = 0;
  while (!signal?.aborted) {
    const count = await readings.deleteBefore(limit);
    if (count === 0) break;
    removed += count;
  }
  return removed;
}
