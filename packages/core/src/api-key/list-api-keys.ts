import type { ApiKey, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
import { openCursor, type PageScope, sealCursor } from "../page-token.ts";

/** The tenant's keys that are not revoked, newest first. Throws `invalid_page_token`. */
export async function listApiKeys(
  core: Core,
  principal: Principal,
  input: PageInput,
): Promise<PageResult<ApiKey>> {
  const scope: PageScope = { organizationId: principal.organizationId, list: "api-keys" };
  const after = openCursor(core.pageTokens, scope, input.pageToken);
  const limit = pageSizeOf(input);
  const page = await core.db.apiKeys.list(principal.organizationId, { limit, after });
  return { items: page.items, nextPageToken: sealCursor(core.pageTokens, scope, page.next) };
}
