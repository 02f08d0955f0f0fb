import type { AuditFilter } from "@millrace/db";
import type { AuditEvent, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
import { openCursor, type PageScope, sealCursor } from "../page-token.ts";

/** Newest first. Throws `invalid_page_token`. */
export async function listAuditEvents(
  core: Core,
  { organizationId }: Principal,
  { filter, ...input }: PageInput & { readonly filter: AuditFilter },
): Promise<PageResult<AuditEvent>> {
  const { from, to, ...texts } = filter;
  const scope: PageScope = {
    organizationId,
    list: "audit-events",
    filter: { ...texts, from: from?.toISOString(), to: to?.toISOString() },
  };
  const after = openCursor(core.pageTokens, scope, input.pageToken);
  const page = await core.db.audit.list(
    organizationId,
    { limit: pageSizeOf(input), after },
    filter,
  );
  return { items: page.items, nextPageToken: sealCursor(core.pageTokens, scope, page.next) };
}
