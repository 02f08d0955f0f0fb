import { z } from "zod";
import { defineContract } from "../contract.ts";
import { KafkaRecord, progressFields } from "./record.ts";
import { selectionQuery, topicParams } from "./selection.ts";

export const RecordStreamItem = z
  .object({
    record: KafkaRecord.optional(),
    progress: z.object(progressFields).meta({ id: "RecordProgress" }).optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
    cursor: z.string().optional().meta({
      description: "Continues after this item; in server-sent events it is the event's id instead",
    }),
  })
  .meta({ id: "RecordStreamItem", description: "One of record, progress and error" });
export type RecordStreamItem = z.infer<typeof RecordStreamItem>;

export const streamRecords = defineContract({
  name: "record.stream",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/topics/{topic_name}/records/stream",
  summary: "Stream records",
  description:
    "Streams records as NDJSON or, with Accept: text/event-stream, as server-sent events. A progress item comes at least every 10 seconds; an error item is the last. If you stop reading, the broker stops reading for you. A stream ends after 10 minutes: continue it with the cursor of the last item, or with Last-Event-ID. It ends with an error item within 5 seconds after the caller has lost access.",
  tag: "Records",
  permission: "record:read",
  successStatus: 200,
  stream: ["application/x-ndjson", "text/event-stream"],
  params: topicParams,
  query: selectionQuery,
  headers: {
    last_event_id: z.string().max(16_384).optional().meta({
      description: "Cursor of the last event received; the stream continues after it",
    }),
  },
  response: RecordStreamItem,
});
