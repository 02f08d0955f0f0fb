import { defineContract } from "../contract.ts";
import { pageOf, pageQuery } from "../page.ts";
import { AuditEvent, auditQuery } from "./audit-event.ts";

export const listAuditEvents = defineContract({
  name: "auditEvent.list",
  method: "GET",
  path: "/v1/audit-events",
  summary: "List audit events",
  description:
    "Who changed what, and what was refused; newest first. Of the same refusal one event per minute is kept, and of the records that one caller produces to one topic the first request of a minute.",
  tag: "Audit",
  permission: "audit:read",
  successStatus: 200,
  query: { ...pageQuery, ...auditQuery },
  response: pageOf(AuditEvent).meta({ id: "AuditEventPage" }),
});
