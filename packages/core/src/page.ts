/** Items of a list when the caller names no size. */
const PAGE_SIZE_DEFAULT = 50;

export interface PageInput {
  readonly pageSize?: number | undefined;
  readonly pageToken?: string | undefined;
}

export interface PageResult<T> {
  readonly items: T[];
  readonly nextPageToken: string | undefined;
}

export function pageSizeOf(input: PageInput): number {
  return input.pageSize ?? PAGE_SIZE_DEFAULT;
}

/**
 * A page of a list that the broker gives as a whole, ordered by `nameOf`: what comes after the name
 * `after`. `last` is the name to go on from, absent on the last page.
 */
export function pageByName<T>(
  items: readonly T[],
  nameOf: (item: T) => string,
  after: string | undefined,
  size: number,
): { items: T[]; last: string | undefined } {
  const rest = items
    .filter((item) => after === undefined || nameOf(item) > after)
    .sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  const shown = rest.slice(0, size);
  const last = rest.length > size ? shown.at(-1) : undefined;
  return { items: shown, last: last && nameOf(last) };
}
