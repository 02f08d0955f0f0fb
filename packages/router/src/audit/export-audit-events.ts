import { type AuditEvent, exportAuditEvents as contract } from "@millrace/contract";
import { exportAuditEvents } from "@millrace/core";
import type { AuditEvent as Event } from "@millrace/domain";
import { procedure } from "../procedure.ts";
import { auditFilter, presentAuditEvent } from "./present-audit-event.ts";

/** Takes its slot before it answers, so that a refusal is an answer and not a broken stream. */
export const exportAuditEventsProcedure = procedure(contract.permission)
  .input(contract.input)
  .subscription(async ({ ctx, input, signal }) => {
    const ends = signal ? AbortSignal.any([signal, ctx.signal]) : ctx.signal;
    const events = exportAuditEvents(ctx.core, ctx.principal, auditFilter(input), ends);
    return presented(events);
  });

async function* presented(
  events: AsyncIterable<Event>,
): AsyncGenerator<AuditEvent, void, undefined> {
  for await (const event of events) yield presentAuditEvent(event);
}
