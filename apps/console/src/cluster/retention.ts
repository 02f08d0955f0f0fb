/** What becomes of a cluster's data when it is deleted, as it is being entered. */
import { RETAIN_DAYS_DEFAULT, RETAIN_DAYS_MAX } from "@millrace/domain";

export interface RetentionDraft {
  readonly kept: boolean;
  /** As the field holds it: empty while it is retyped. Counts only where the data is kept. */
  readonly days: number | string;
}

/** Deletion is reversible unless somebody chooses otherwise, wherever the cluster runs. */
export const KEPT_BY_DEFAULT: RetentionDraft = { kept: true, days: RETAIN_DAYS_DEFAULT };

/**
 * Days to ask for, 0 only where the data is to go at once; undefined while the field holds no number
 * of days, in which case nothing may be asked for.
 */
export function retainDays({ kept, days }: RetentionDraft): number | undefined {
  if (!kept) return 0;
  const count = typeof days === "number" ? days : Number(days.trim() || Number.NaN);
  return Number.isInteger(count) && count >= 1 && count <= RETAIN_DAYS_MAX ? count : undefined;
}
