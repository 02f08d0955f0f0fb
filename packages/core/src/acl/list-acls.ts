import type { Acl, AclFilter, ClusterId, Principal } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageByName, pageSizeOf } from "../page.ts";
import type { PageScope } from "../page-token.ts";

export interface ListAclsInput extends PageInput {
  readonly clusterId: ClusterId;
  readonly filter: AclFilter;
}

/**
 * ACLs by resource, then by principal. Throws `not_found`, `cluster_not_ready`, `not_supported` where the
 * cluster does not check ACLs, `broker_unavailable`.
 */
export async function listAcls(
  core: Core,
  principal: Principal,
  input: ListAclsInput,
): Promise<PageResult<Acl>> {
  const cluster = await requireServingCluster(core, principal, input.clusterId);
  const scope: PageScope = {
    organizationId: principal.organizationId,
    list: "acls",
    filter: { clusterId: input.clusterId, ...input.filter },
  };
  const after = input.pageToken && core.pageTokens.open(scope, input.pageToken)[0];
  const acls = await atBroker(undefined, async () =>
    (await core.brokerHttp(cluster)).listAcls(input.filter),
  );
  const page = pageByName(acls, orderOf, after, pageSizeOf(input));
  return {
    items: page.items,
    nextPageToken: page.last && core.pageTokens.seal(scope, [page.last]),
  };
}

/** Different for each rule. */
function orderOf(acl: Acl): string {
  const { resourceType, resourceName, patternType, principal, permission, operation, host } = acl;
  return JSON.stringify([
    ...[resourceType, resourceName, patternType],
    ...[principal, permission, operation, host],
  ]);
}
