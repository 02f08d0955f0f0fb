import type { OutgoingMail, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
import { openCursor, type PageScope, sealCursor } from "../page-token.ts";

/** The tenant's mails without their texts, newest first. Throws `invalid_page_token`. */
export async function listOutgoingMails(
  core: Core,
  { organizationId }: Principal,
  input: PageInput,
): Promise<PageResult<OutgoingMail>> {
  const scope: PageScope = { organizationId, list: "outgoing_mails" };
  const after = openCursor(core.pageTokens, scope, input.pageToken);
  const limit = pageSizeOf(input);
  const page = await core.db.outgoingMails.list(organizationId, { limit, after });
  return {
    items: page.items.map(({ mail }) => mail),
    nextPageToken: sealCursor(core.pageTokens, scope, page.next),
  };
}
