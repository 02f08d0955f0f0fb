import { type AuditEvent, exportAuditEvents as contract } from "@millrace/contract";
import { exportAuditEvents } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { auditFilter, presentAuditEvent } from "./present-audit-event.ts";

export const exportAuditEventsProcedure = procedure(contract.permission)
  .input(contract.input)
  .subscription(async function* ({
    ctx,
    input,
    signal,
  }): AsyncGenerator<AuditEvent, void, undefined> {
    const ends = signal ? AbortSignal.any([signal, ctx.signal]) : ctx.signal;
    const events = exportAuditEvents(ctx.core, ctx.principal, auditFilter(input), ends);
    for await (const event of events) yield presentAuditEvent(event);
  });
