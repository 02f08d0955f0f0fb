/** Which records somebody looks at: as they are typed, as the address names them, as the API is asked. */
import type { ListRecordsInput } from "@millrace/contract";
import { RECORD_PARTITIONS_MAX } from "@millrace/domain";

/** Records of one answer, by choice; the API gives at most a thousand. */
export const COUNTS = ["50", "200", "1000"] as const;
/** How long one search may take: what matches may be far apart. */
const SEARCH_MS = 5_000;
export const STARTS = ["newest", "oldest", "offset", "time"] as const;
export type Start = (typeof STARTS)[number];

/** All texts, so that a field can hold what is not valid yet. */
export interface RecordDraft {
  readonly start: Start;
  readonly count: string;
  readonly offset: string;
  /** Local time, as `<input type="datetime-local">` writes it. */
  readonly time: string;
  /** Empty: all. */
  readonly partition: string;
  readonly key: string;
  readonly header: string;
  readonly text: string;
}

export const NEW_DRAFT: RecordDraft = {
  start: "newest",
  count: COUNTS[0],
  offset: "",
  time: "",
  partition: "",
  key: "",
  header: "",
  text: "",
};

const FIELDS = Object.keys(NEW_DRAFT) as (keyof RecordDraft)[];

type Query = Omit<ListRecordsInput, "cluster_id" | "topic_name">;

/** What is wrong with the draft, by field; empty where nothing is. */
export function draftErrors(draft: RecordDraft): Partial<Record<keyof RecordDraft, string>> {
  if (draft.start === "offset") {
    return {
      ...(!/^\d{1,19}$/.test(draft.offset) && { offset: "Enter a whole number" }),
      ...(draft.partition === "" && { partition: "Choose one: offsets are per partition" }),
    };
  }
  if (draft.start === "time" && Number.isNaN(Date.parse(draft.time))) {
    return { time: "Enter a date and a time" };
  }
  return {};
}

/** The draft for a topic of more partitions than one request reads: all of them are the first ones. */
export function withinPartitions(draft: RecordDraft, partitionCount: number): RecordDraft {
  if (draft.partition !== "" || partitionCount <= RECORD_PARTITIONS_MAX) return draft;
  const first = Array.from({ length: RECORD_PARTITIONS_MAX }, (_, partition) => partition);
  return { ...draft, partition: first.join(",") };
}

/** The filters of a read and of a live tail alike. */
export function filtersOf(draft: RecordDraft): Query {
  const { partition, key, header, text } = draft;
  return {
    ...(partition !== "" && { partition }),
    ...(key !== "" && { key }),
    ...(header !== "" && { header }),
    ...(text !== "" && { text }),
  };
}

/** What the API is asked; with a `cursor`, for what comes after an earlier answer. */
export function queryOf(draft: RecordDraft, cursor?: string): Query {
  const limit = {
    ...filtersOf(draft),
    limit: draft.count,
    ...(hasFilter(draft) && { max_wait_ms: SEARCH_MS }),
  };
  if (cursor !== undefined) return { ...limit, cursor };
  if (draft.start === "oldest") return { ...limit, from: "earliest" };
  if (draft.start === "offset") return { ...limit, offset: draft.offset };
  if (draft.start === "time") return { ...limit, time: String(Date.parse(draft.time)) };
  return { ...limit, newest: draft.count };
}

export function hasFilter({ key, header, text }: RecordDraft): boolean {
  return key !== "" || header !== "" || text !== "";
}

/** The draft as a page's query string, so that a view can be shared; empty for the usual one. */
export function searchOf(draft: RecordDraft): string {
  const fields = new URLSearchParams();
  for (const name of FIELDS) {
    if (draft[name] !== NEW_DRAFT[name]) fields.set(name, draft[name]);
  }
  return fields.size === 0 ? "" : `?${fields}`;
}

/** The draft that an address names; what it says of no sense is left out. */
export function draftOf(search: Pick<URLSearchParams, "get">): RecordDraft {
  const given = FIELDS.flatMap((name) => {
    const value = search.get(name);
    return value === null ? [] : [[name, value] as const];
  });
  const draft: RecordDraft = { ...NEW_DRAFT, ...Object.fromEntries(given) };
  const known =
    (STARTS as readonly string[]).includes(draft.start) &&
    (COUNTS as readonly string[]).includes(draft.count) &&
    /^\d{0,5}$/.test(draft.partition);
  return known && Object.keys(draftErrors(draft)).length === 0 ? draft : NEW_DRAFT;
}
