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
        'true: the last line is {"signature": …}, made with the installation\'s Ed25519 key; an export without it is not whole',
      override: { type: "boolean", anyOf: undefined },
    }),
  },
  response: AuditEvent,
});
