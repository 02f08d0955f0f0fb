/** Records as a broker's admin HTTP writes them: in requests as types, in answers as schemas. */
import {
  BYTE_ENCODINGS,
  type COMPRESSIONS,
  type PARTITIONERS,
  type READ_ENCODINGS,
  type RECORD_STARTS,
} from "@millrace/domain";
import { z } from "zod";

/** Which records of a topic: where to start, and what must match. */
export interface RecordSelection {
  /** Numbers with commas between them; all partitions where absent. */
  readonly partition?: string | undefined;
  /** At most one of these five; some of the newest ones by default. */
  readonly newest?: number | undefined;
  readonly offset?: string | undefined;
  readonly time?: string | undefined;
  readonly from?: (typeof RECORD_STARTS)[number] | undefined;
  readonly cursor?: string | undefined;
  readonly key?: string | undefined;
  /** `name`, or `name=value`. */
  readonly header?: string | undefined;
  readonly text?: string | undefined;
  readonly encoding?: (typeof READ_ENCODINGS)[number] | undefined;
  readonly value_bytes_max?: number | undefined;
}

/** How much one answer may hold, and how long the broker may look for it. */
export interface RecordBudget {
  readonly limit?: number | undefined;
  readonly max_bytes?: number | undefined;
  readonly max_wait_ms?: number | undefined;
}

interface GivenBytes {
  readonly encoding: (typeof BYTE_ENCODINGS)[number];
  readonly data: string;
}

export interface NewRecord {
  readonly partition?: number | undefined;
  readonly key?: GivenBytes | null | undefined;
  readonly value?: GivenBytes | null | undefined;
  readonly headers?:
    | readonly { readonly name: string; readonly value: GivenBytes | null }[]
    | undefined;
  readonly timestamp_ms?: string | undefined;
}

export interface ProduceRequest {
  readonly records: readonly NewRecord[];
  readonly partitioner?: (typeof PARTITIONERS)[number] | undefined;
  readonly compression?: (typeof COMPRESSIONS)[number] | undefined;
}

/** 64-bit numbers are decimal strings: JSON numbers lose digits past 2^53. */
const int64 = z.string().regex(/^-?\d{1,19}$/);
const count = z.int().nonnegative();

const bytes = z.object({
  encoding: z.enum(BYTE_ENCODINGS),
  data: z.string(),
  bytes: count,
  truncated: z.boolean(),
});

const record = z.object({
  partition: count,
  offset: int64,
  timestamp_ms: int64,
  timestamp_type: z.enum(["create_time", "log_append_time"]),
  key: bytes.nullable(),
  value: bytes.nullable(),
  tombstone: z.boolean(),
  headers: z.array(z.object({ name: z.string(), value: bytes.nullable() })),
  headers_truncated: z.boolean().optional(),
  size_bytes: count,
});

const partition = z.object({
  partition: count,
  earliest_offset: int64,
  end_offset: int64,
  next_offset: int64,
});

export const RecordPageAnswer = z.object({
  records: z.array(record),
  cursor: z.string().nullable(),
  end: z.boolean(),
  scanned_records: count,
  scanned_bytes: count,
  partitions: z.array(partition),
});
export type RecordPageAnswer = z.infer<typeof RecordPageAnswer>;

const problem = z.object({ code: z.string(), message: z.string() });

export const ProduceAnswer = z.object({
  results: z.array(
    z.union([
      z.object({ partition: count, offset: int64.nullable(), timestamp_ms: int64 }),
      z.object({ error: problem }),
    ]),
  ),
});
export type ProduceAnswer = z.infer<typeof ProduceAnswer>;

/** One item of a stream: exactly one of its parts. */
export interface RecordItem {
  readonly record?: z.infer<typeof record>;
  readonly progress?: Pick<RecordPageAnswer, "scanned_records" | "scanned_bytes" | "partitions">;
  /** The last item. */
  readonly error?: z.infer<typeof problem>;
}

/** Looks at the outside only: records come by the hundred thousand, from a broker of ours. */
export function isRecordItem(value: unknown): value is RecordItem {
  if (typeof value !== "object" || value === null) return false;
  return "record" in value || "progress" in value || "error" in value;
}
