import type { ApiKey, Principal, ServiceAccountId } from "@millrace/domain";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
import { openCursor, type PageScope, sealCursor } from "../page-token.ts";

/** The tenant's keys that are not revoked, newest first; of one service account, where one is named. Throws `invalid_page_token`. */
export async function listApiKeys(
  core: Core,
  principal: Principal,
  input: PageInput & { readonly serviceAccountId: ServiceAccountId | undefined },
): Promise<PageResult<ApiKey>> {
  const { organizationId } = principal;
  const { serviceAccountId } = input;
  const list = serviceAccountId ? `api-keys of ${serviceAccountId}` : "api-keys";
  const scope: PageScope = { organizationId, list };
  const after = openCursor(core.pageTokens, scope, input.pageToken);
  const limit = pageSizeOf(input);
  const page = await core.db.apiKeys.list(organizationId, serviceAccountId, { limit, after });
  return { items: page.items, nextPageToken: sealCursor(core.pageTokens, scope, page.next) };
}
