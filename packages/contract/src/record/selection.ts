import {
  READ_ENCODINGS,
  RECORD_BYTES_MAX,
  RECORD_FILTER_MAX,
  RECORD_PARTITIONS_MAX,
  RECORD_STARTS,
  RECORDS_DEFAULT,
  RECORDS_MAX,
} from "@millrace/domain";
import { z } from "zod";
import { instant, pathId } from "../field.ts";

/** Of a topic; internal ones can be read as well. */
export const topicParams = {
  cluster_id: pathId("clu"),
  topic_name: z.string().min(1).max(249),
};

/** A whole number: a string over REST, a number over tRPC. */
export function amount(min: number, max: number) {
  return z.coerce.number<string | number>().int().min(min).max(max);
}

const PARTITIONS = /^\d{1,5}(,\d{1,5})*$/;
const filter = z.string().min(1).max(RECORD_FILTER_MAX);

/** Where to start, and what must match. One start at most. */
export const selectionQuery = {
  partition: z
    .string()
    .max(6 * RECORD_PARTITIONS_MAX)
    .regex(PARTITIONS, "must be partition numbers like 0 or 0,3")
    .optional()
    .meta({
      description: `Partitions like 0 or 0,3; all by default, of at most ${RECORD_PARTITIONS_MAX}`,
    }),
  newest: amount(1, RECORDS_MAX)
    .optional()
    .meta({ description: `The newest N records; the default, with ${RECORDS_DEFAULT}` }),
  offset: z
    .string()
    .regex(/^\d{1,19}$/, "must be an offset: a whole number of 0 or more")
    .optional()
    .meta({ description: "From this offset; needs exactly one partition" }),
  time: instant
    .optional()
    .meta({ description: "From this time: RFC 3339, or milliseconds since the epoch" }),
  from: z.enum(RECORD_STARTS).optional().meta({ description: "From an end of the partitions" }),
  cursor: z.string().min(1).max(16_384).optional().meta({
    description: "Continues an earlier answer; valid for the same topic and filters",
  }),
  key: z
    .string()
    .max(RECORD_FILTER_MAX)
    .optional()
    .meta({ description: "Only records with exactly this key, as text; empty: with an empty key" }),
  header: filter
    .optional()
    .meta({ description: "Only records with this header: name, or name=value" }),
  text: filter
    .optional()
    .meta({ description: "Only records whose key or value contains this text, case-sensitive" }),
  encoding: z.enum(READ_ENCODINGS).optional().meta({
    description: "auto, the default: text if the bytes are UTF-8, else base64",
  }),
  value_bytes_max: amount(0, RECORD_BYTES_MAX).optional().meta({
    description: "Longer keys, values and header values are truncated; 64 KiB by default",
  }),
};
