import type { AuditFilter, Cursor } from "@millrace/db";
import { AUDIT_EXPORT_EVENTS_MAX, type AuditEvent, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { holding } from "../request-slots.ts";

/** Events read at a time; none are read before the caller takes them. */
const BATCH_MAX = 500;

/** Newest first, at most `AUDIT_EXPORT_EVENTS_MAX`. Throws `rate_limited` where another export runs. */
export function exportAuditEvents(
  core: Core,
  principal: Principal,
  filter: AuditFilter,
  signal: AbortSignal,
): AsyncIterableIterator<AuditEvent, void> {
  const release = core.requestSlots.acquire("export", principal);
  return holding(events(core, principal, filter, signal), signal, release);
}

async function* events(
  core: Core,
  { organizationId }: Principal,
  filter: AuditFilter,
  signal: AbortSignal,
): AsyncGenerator<AuditEvent, void, undefined> {
  let after: Cursor | undefined;
  for (let sent = 0; sent < AUDIT_EXPORT_EVENTS_MAX && !signal.aborted; ) {
    const limit = Math.min(BATCH_MAX, AUDIT_EXPORT_EVENTS_MAX - sent);
    const page = await core.db.audit.list(organizationId, { limit, after }, filter);
    yield* page.items;
    sent += page.items.length;
    if (page.next === undefined) return;
    after = page.next;
  }
}
