import type { Environment, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
import { openCursor, type PageScope, sealCursor } from "../page-token.ts";

/** The tenant's environments, oldest first. Throws `invalid_page_token`. */
export async function listEnvironments(
  core: Core,
  principal: Principal,
  input: PageInput,
): Promise<PageResult<Environment>> {
  const scope: PageScope = { organizationId: principal.organizationId, list: "environments" };
  const after = openCursor(core.pageTokens, scope, input.pageToken);
  const limit = pageSizeOf(input);
  const page = await core.db.organizations.environments(principal.organizationId, { limit, after });
  return { items: page.items, nextPageToken: sealCursor(core.pageTokens, scope, page.next) };
}
