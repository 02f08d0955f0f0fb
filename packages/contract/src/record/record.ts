import { BYTE_ENCODINGS, RECORD_BYTES_MAX } from "@millrace/domain";
import { z } from "zod";
import { int64 } from "../field.ts";

/** Characters outside base64; its padding is looked at apart. */
const NOT_BASE64 = /[^A-Za-z0-9+/]/;
const NOT_HEX = /[^0-9A-Fa-f]/;

/** Looks for what does not belong: a pattern of repeated groups overflows on megabytes. */
function isEncoded(encoding: (typeof BYTE_ENCODINGS)[number], data: string): boolean {
  if (encoding === "text") return data.isWellFormed();
  if (encoding === "hex") return data.length % 2 === 0 && !NOT_HEX.test(data);
  return data.length % 4 === 0 && !NOT_BASE64.test(data.replace(/={1,2}$/, ""));
}

const ENCODING_ERRORS: Readonly<Record<string, string>> = {
  text: "must be Unicode text without lone surrogates",
  hex: "must be hexadecimal: two digits per byte",
  base64: "must be base64 with padding",
};

/** Bytes of a request. */
export const GivenBytes = z
  .strictObject({
    encoding: z.enum(BYTE_ENCODINGS),
    data: z.string().max(RECORD_BYTES_MAX),
  })
  .superRefine(({ encoding, data }, context) => {
    if (isEncoded(encoding, data)) return;
    const message = ENCODING_ERRORS[encoding] ?? "is not valid";
    context.addIssue({ code: "custom", path: ["data"], message });
  })
  .meta({ id: "GivenBytes" });

/** Bytes of an answer. */
export const RecordBytes = z
  .object({
    encoding: z.enum(BYTE_ENCODINGS),
    data: z.string(),
    bytes: z.int().meta({ description: "Full length, also if data is truncated" }),
    truncated: z.boolean(),
  })
  .meta({ id: "RecordBytes" });
export type RecordBytes = z.infer<typeof RecordBytes>;

export const KafkaRecord = z
  .object({
    partition: z.int(),
    offset: int64,
    timestamp_ms: int64,
    timestamp_type: z.enum(["create_time", "log_append_time"]),
    key: RecordBytes.nullable().meta({ description: "null: the record has no key" }),
    value: RecordBytes.nullable().meta({ description: "null: the record is a tombstone" }),
    tombstone: z.boolean(),
    headers: z.array(z.object({ name: z.string(), value: RecordBytes.nullable() })),
    headers_truncated: z
      .boolean()
      .optional()
      .meta({ description: "Set if the record has more headers than are listed" }),
    size_bytes: z.int().meta({ description: "Key, value and headers, uncompressed" }),
  })
  .meta({ id: "Record" });
export type KafkaRecord = z.infer<typeof KafkaRecord>;

export const RecordPartition = z
  .object({
    partition: z.int(),
    earliest_offset: int64,
    end_offset: int64.meta({ description: "Offset of the next record produced" }),
    next_offset: int64.meta({ description: "Where this read continues" }),
  })
  .meta({ id: "RecordPartition" });
export type RecordPartition = z.infer<typeof RecordPartition>;

/** How far a read is. */
export const progressFields = {
  scanned_records: z.int(),
  scanned_bytes: z.int(),
  partitions: z.array(RecordPartition),
};
