import type { Member, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
import { openCursor, type PageScope, sealCursor } from "../page-token.ts";

/** The tenant's members, oldest first. Throws `invalid_page_token`. */
export async function listMembers(
  core: Core,
  { organizationId }: Principal,
  input: PageInput,
): Promise<PageResult<Member>> {
  const scope: PageScope = { organizationId, list: "members" };
  const after = openCursor(core.pageTokens, scope, input.pageToken);
  const page = await core.db.members.list(organizationId, { limit: pageSizeOf(input), after });
  return { items: page.items, nextPageToken: sealCursor(core.pageTokens, scope, page.next) };
}
