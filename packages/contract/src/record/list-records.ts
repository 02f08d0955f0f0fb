import {
  RECORD_BYTES_MAX,
  RECORD_SCAN_MS_MAX,
  RECORDS_DEFAULT,
  RECORDS_MAX,
} from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { KafkaRecord, progressFields } from "./record.ts";
import { amount, selectionQuery, topicParams } from "./selection.ts";

export const RecordPage = z
  .object({
    records: z.array(KafkaRecord).meta({
      description:
        "newest: newest first. Otherwise in order per partition, partitions merged by time",
    }),
    cursor: z.string().nullable().meta({
      description: "Continues after this answer; after newest, with records produced later",
    }),
    end: z.boolean().meta({ description: "True if everything up to the end was scanned" }),
    ...progressFields,
  })
  .meta({ id: "RecordPage" });
export type RecordPage = z.infer<typeof RecordPage>;

export const listRecords = defineContract({
  name: "record.list",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/topics/{topic_name}/records",
  summary: "Read records",
  description:
    "Reads a page of records, filtered by the broker. An answer may have fewer records than limit, or none, before the end: continue with its cursor. Each read counts its max_bytes towards the caller's 24 MiB at a time. Internal topics can be read too.",
  tag: "Records",
  permission: "record:read",
  successStatus: 200,
  params: topicParams,
  query: {
    ...selectionQuery,
    limit: amount(1, RECORDS_MAX)
      .optional()
      .meta({ description: `Records per answer, ${RECORDS_DEFAULT} by default` }),
    max_bytes: amount(1, RECORD_BYTES_MAX)
      .optional()
      .meta({ description: "Keys, values and headers per answer; 1 MiB by default" }),
    max_wait_ms: amount(1, RECORD_SCAN_MS_MAX)
      .optional()
      .meta({ description: "How long to scan for matches; 2000 by default" }),
  },
  response: RecordPage,
});
/** What callers send. */
export type ListRecordsInput = z.input<typeof listRecords.input>;
