import type { Principal, ServiceAccount } from "@millrace/domain";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
import { openCursor, type PageScope, sealCursor } from "../page-token.ts";

/** The tenant's service accounts, newest first. Throws `invalid_page_token`. */
export async function listServiceAccounts(
  core: Core,
  { organizationId }: Principal,
  input: PageInput,
): Promise<PageResult<ServiceAccount>> {
  const scope: PageScope = { organizationId, list: "service-accounts" };
  const after = openCursor(core.pageTokens, scope, input.pageToken);
  const limit = pageSizeOf(input);
  const page = await core.db.serviceAccounts.list(organizationId, { limit, after });
  return { items: page.items, nextPageToken: sealCursor(core.pageTokens, scope, page.next) };
}
