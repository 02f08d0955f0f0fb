import {
  COMPRESSIONS,
  PARTITIONERS,
  RECORD_BYTES_MAX,
  RECORD_HEADER_NAME_MAX,
  RECORD_HEADERS_MAX,
  RECORDS_MAX,
  TOPIC_PARTITIONS_MAX,
} from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { int64 } from "../field.ts";
import { GivenBytes } from "./record.ts";
import { topicParams } from "./selection.ts";

const NewRecord = z
  .strictObject({
    partition: z
      .int()
      .min(0)
      .max(TOPIC_PARTITIONS_MAX - 1)
      .optional()
      .meta({ description: "By the hash of the key, or by the partitioner, if absent" }),
    key: GivenBytes.nullable().optional(),
    value: GivenBytes.nullable().optional().meta({ description: "null or absent: a tombstone" }),
    headers: z
      .array(
        z.strictObject({
          name: z.string().max(RECORD_HEADER_NAME_MAX),
          value: GivenBytes.nullable(),
        }),
      )
      .max(RECORD_HEADERS_MAX)
      .optional(),
    timestamp_ms: z
      .string()
      .regex(/^\d{1,15}$/, "must be milliseconds since the epoch")
      .optional()
      .meta({ description: "Milliseconds since the epoch; now by default" }),
  })
  .meta({ id: "NewRecord" });

/** What became of one record: its place, or why it was not written. */
export const ProducedRecord = z
  .object({
    partition: z.int().optional(),
    offset: int64.nullable().optional().meta({
      description: "null if the broker knew only that an earlier attempt had written the record",
    }),
    timestamp_ms: int64.optional(),
    error: z
      .object({ code: z.string(), message: z.string() })
      .optional()
      .meta({ description: "Set if the record was not written; code is Kafka's error name" }),
  })
  .meta({ id: "ProducedRecord" });

export const produceRecords = defineContract({
  name: "record.produce",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/topics/{topic_name}/records",
  summary: "Produce records",
  description:
    "Writes up to 1,000 records, acknowledged by all replicas, and returns one result per record in their order. The status is 200 also if records were not written, even if none was: look at the error of each result. With an Idempotency-Key a retry gets the first answer again and writes nothing twice, also after produce_outcome_unknown: the broker may or may not have written the records. Only a crash of the API server during the request can let a retry write again. Internal topics cannot be written.",
  tag: "Records",
  permission: "record:write",
  successStatus: 200,
  bodyBytesMax: RECORD_BYTES_MAX,
  params: topicParams,
  body: {
    records: z.array(NewRecord).min(1).max(RECORDS_MAX),
    partitioner: z
      .enum(PARTITIONERS)
      .optional()
      .meta({ description: "For records without key and partition; uniform_sticky by default" }),
    compression: z.enum(COMPRESSIONS).optional(),
  },
  response: z.object({ results: z.array(ProducedRecord) }).meta({ id: "ProduceResult" }),
});
/** What callers send. */
export type ProduceRecordsInput = z.input<typeof produceRecords.input>;
