import { AUDIT_RESULTS, AUTH_METHODS } from "@millrace/domain";
import { z } from "zod";
import { Actor } from "../actor.ts";
import { int64, timestamp, withoutNul } from "../field.ts";

const detail = z.record(z.string(), z.unknown()).nullable();

export const AuditEvent = z
  .object({
    id: z.string(),
    seq: int64.meta({ description: "Counts from 1 per organization, without gaps" }),
    created_at: timestamp,
    actor: Actor,
    impersonator: z
      .object({ id: z.string(), name: z.string() })
      .nullable()
      .meta({ description: "The platform operator who acted as the actor" }),
    auth_method: z.enum(AUTH_METHODS),
    client_address: z.string(),
    request_id: z.string(),
    method: z.string(),
    target_id: z.string().nullable(),
    result: z.enum(AUDIT_RESULTS).meta({
      description:
        "started: the broker is about to change a topic, the outcome follows. success: the change was made. failure: nothing was changed. denied: the role does not grant it",
    }),
    error_code: z.string().nullable(),
    request: detail.meta({ description: "What was asked for, without secrets and records" }),
    before: detail.meta({ description: "The target before the change" }),
    after: detail.meta({ description: "The target after the change" }),
    hash: z.string().meta({
      description: "SHA-256 over the previous event's hash and this event, hexadecimal",
    }),
  })
  .meta({ id: "AuditEvent" });
export type AuditEvent = z.infer<typeof AuditEvent>;

/** Fields that choose events. */
export const auditQuery = {
  actor_id: z
    .string()
    .max(40)
    .refine(...withoutNul)
    .optional()
    .meta({ description: "ID of a user or an API key" }),
  method: z
    .string()
    .max(60)
    .refine(...withoutNul)
    .optional()
    .meta({ description: "A method like cluster.update, or all of one kind like cluster" }),
  target_id: z
    .string()
    .max(40)
    .refine(...withoutNul)
    .optional(),
  result: z.enum(AUDIT_RESULTS).optional(),
  from: timestamp.optional().meta({ description: "RFC 3339, UTC; this time included" }),
  to: timestamp.optional().meta({ description: "RFC 3339, UTC; this time excluded" }),
} as const;
