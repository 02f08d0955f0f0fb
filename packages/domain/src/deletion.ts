/** Days for which a deleted cluster's data can be kept: three months. */
export const RETAIN_DAYS_MAX = 90;

/** Days for which data outlives its cluster where the request does not say: a week to notice. */
export const RETAIN_DAYS_DEFAULT = 7;

const DAY_MS = 24 * 60 * 60 * 1000;

/** When data kept for `retainDays` from `now` on is purged; undefined: with the cluster. */
export function purgeAt(now: Date, retainDays: number): Date | undefined {
  return retainDays > 0 ? new Date(now.getTime() + retainDays * DAY_MS) : undefined;
}
