import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { OperationEvent } from "./operation.ts";

/** Events are numbered with 32-bit integers. */
export const SEQ_MAX = 2 ** 31 - 1;

export const watchOperation = defineContract({
  name: "operation.watch",
  method: "GET",
  path: "/v1/operations/{operation_id}/events",
  summary: "Stream operation events",
  description:
    "Server-sent events until the operation is done, which the event end says. A stream without it was interrupted: continue with Last-Event-ID.",
  tag: "Operations",
  permission: "operation:read",
  successStatus: 200,
  stream: ["text/event-stream"],
  params: { operation_id: pathId("op") },
  headers: {
    last_event_id: z.coerce
      .number<string | number>()
      .int()
      .min(0)
      .max(SEQ_MAX)
      .optional()
      .meta({ description: "seq of the last event received; the stream resumes after it" }),
  },
  response: OperationEvent,
});
