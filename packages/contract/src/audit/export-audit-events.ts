import { AUDIT_EXPORT_EVENTS_MAX } from "@millrace/domain";
import { defineContract } from "../contract.ts";
import { querySwitch } from "../field.ts";
import { AuditEvent, auditQuery } from "./audit-event.ts";

export const exportAuditEvents = defineContract({
  name: "auditEvent.export",
  method: "GET",
  path: "/v1/audit-events/export",
  summary: "Export audit events",
  description: `NDJSON, newest first, at most ${AUDIT_EXPORT_EVENTS_MAX} events: for older ones, repeat the request with to set to the created_at of the last event.`,
  tag: "Audit",
  permission: "audit:read",
  successStatus: 200,
  stream: ["application/x-ndjson"],
  query: {
    ...auditQuery,
    signed: querySwitch.optional().meta({
      description:
        'true: after the events come a line {"export": …} with organization, query, time, number of events, their SHA-256 and whether they are complete, and a line {"signature": …} of it with the installation\'s Ed25519 key. An export without them was cut off',
      override: { type: "boolean", anyOf: undefined },
    }),
  },
  response: AuditEvent,
});
