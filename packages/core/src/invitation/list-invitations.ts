import type { Invitation, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
import { openCursor, type PageScope, sealCursor } from "../page-token.ts";

/** The tenant's pending invitations, newest first. Throws `invalid_page_token`. */
export async function listInvitations(
  core: Core,
  { organizationId }: Principal,
  input: PageInput,
): Promise<PageResult<Invitation>> {
  const scope: PageScope = { organizationId, list: "invitations" };
  const after = openCursor(core.pageTokens, scope, input.pageToken);
  const limit = pageSizeOf(input);
  const now = core.clock.now();
  const page = await core.db.invitations.pending(organizationId, now, { limit, after });
  return { items: page.items, nextPageToken: sealCursor(core.pageTokens, scope, page.next) };
}
