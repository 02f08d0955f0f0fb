import { listAuditEvents as contract } from "@millrace/contract";
import { listAuditEvents } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { auditFilter, presentAuditEvent } from "./present-audit-event.ts";

export const listAuditEventsProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const request = { ...pageInput(input), filter: auditFilter(input) };
    return presentPage(await listAuditEvents(ctx.core, ctx.principal, request), presentAuditEvent);
  });
