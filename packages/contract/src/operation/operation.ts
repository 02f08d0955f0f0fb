import {
  CLUSTER_PROVIDERS,
  LOG_LEVELS,
  OPERATION_EVENT_KINDS,
  OPERATION_KINDS,
  OPERATION_PHASES,
  STEP_STATES,
} from "@millrace/domain";
import { z } from "zod";
import { Actor } from "../actor.ts";
import { timestamp } from "../field.ts";

export const OperationStep = z
  .object({
    name: z.string(),
    title: z.string(),
    state: z.enum(STEP_STATES),
    attempt: z.int(),
    started_at: timestamp.nullable(),
    ended_at: timestamp.nullable(),
    message: z.string().nullable(),
  })
  .meta({ id: "OperationStep" });

export const Operation = z
  .object({
    id: z.string(),
    kind: z.enum(OPERATION_KINDS),
    provider: z.enum(CLUSTER_PROVIDERS),
    target: z.object({ type: z.literal("cluster"), id: z.string() }),
    phase: z.enum(OPERATION_PHASES),
    done: z.boolean(),
    steps: z.array(OperationStep),
    progress: z.object({ percent: z.int(), eta_seconds: z.int().nullable() }),
    error: z
      .object({ code: z.string(), message: z.string(), step: z.string().nullable() })
      .nullable(),
    result: z.object({ resource: z.string() }).nullable().meta({
      description:
        "Path of the created resource, once the operation has succeeded. A benchmark exists from the start",
    }),
    require_approval: z.boolean(),
    created_by: Actor.nullable().meta({ description: "Null: Millrace itself" }),
    approved_at: timestamp.nullable(),
    cancel_requested_at: timestamp.nullable(),
    created_at: timestamp,
    updated_at: timestamp,
    started_at: timestamp.nullable(),
    ended_at: timestamp.nullable(),
  })
  .meta({ id: "Operation" });
export type Operation = z.infer<typeof Operation>;

export const OperationEvent = z
  .object({
    operation_id: z.string(),
    seq: z.int(),
    at: timestamp,
    kind: z.enum(OPERATION_EVENT_KINDS),
    step: z.string().nullable(),
    message: z.string(),
    level: z.enum(LOG_LEVELS).nullable().meta({ description: "Set on log lines" }),
    address: z.string().nullable().meta({ description: "The resource that a log line is about" }),
  })
  .meta({ id: "OperationEvent" });
export type OperationEvent = z.infer<typeof OperationEvent>;
