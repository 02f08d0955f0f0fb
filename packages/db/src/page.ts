/** Position of the last item of a page in a list ordered by (created_at, id). */
export interface Cursor {
  readonly createdAt: Date;
  readonly id: string;
}

export interface PageRequest {
  readonly limit: number;
  readonly after?: Cursor | undefined;
}

export interface Page<T> {
  readonly items: T[];
  /** Absent on the last page. */
  readonly next: Cursor | undefined;
}

/** Keyset condition for rows after `cursor` in descending order. */
export function olderThan(cursor: Cursor | undefined) {
  if (cursor === undefined) return {};
  return {
    OR: [
      { createdAt: { lt: cursor.createdAt } },
      { createdAt: cursor.createdAt, id: { lt: cursor.id } },
    ],
  };
}

/** Keyset condition for rows after `cursor` in ascending order. */
export function newerThan(cursor: Cursor | undefined) {
  if (cursor === undefined) return {};
  return {
    OR: [
      { createdAt: { gt: cursor.createdAt } },
      { createdAt: cursor.createdAt, id: { gt: cursor.id } },
    ],
  };
}

/** Cuts `rows`, read with one more than `limit`, to a page. */
export function pageOf<R extends Cursor, T>(
  rows: readonly R[],
  limit: number,
  map: (row: R) => T,
): Page<T> {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const next = rows.length > limit && last ? { createdAt: last.createdAt, id: last.id } : undefined;
  return { items: shown.map(map), next };
}
