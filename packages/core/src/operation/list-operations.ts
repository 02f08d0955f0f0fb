import type { ClusterId, Operation, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
import { openCursor, type PageScope, sealCursor } from "../page-token.ts";

export interface ListOperationsInput extends PageInput {
  readonly clusterId?: ClusterId | undefined;
}

/** The tenant's operations, newest first. Throws `invalid_page_token`. */
export async function listOperations(
  core: Core,
  principal: Principal,
  input: ListOperationsInput,
): Promise<PageResult<Operation>> {
  const filter = { clusterId: input.clusterId };
  const scope: PageScope = { organizationId: principal.organizationId, list: "operations", filter };
  const after = openCursor(core.pageTokens, scope, input.pageToken);
  const limit = pageSizeOf(input);
  const page = await core.db.operations.list(principal.organizationId, { limit, after }, filter);
  return { items: page.items, nextPageToken: sealCursor(core.pageTokens, scope, page.next) };
}
