import type { ClusterId, ClusterUser, Principal } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageByName, pageSizeOf } from "../page.ts";
import type { PageScope } from "../page-token.ts";

export interface ListUsersInput extends PageInput {
  readonly clusterId: ClusterId;
}

/** Users by name. Throws `not_found`, `cluster_not_ready`, `broker_unavailable`. */
export async function listUsers(
  core: Core,
  principal: Principal,
  input: ListUsersInput,
): Promise<PageResult<ClusterUser>> {
  const cluster = await requireServingCluster(core, principal, input.clusterId);
  const scope: PageScope = {
    organizationId: principal.organizationId,
    list: "users",
    filter: { clusterId: input.clusterId },
  };
  const after = input.pageToken && core.pageTokens.open(scope, input.pageToken)[0];
  const users = await atBroker(undefined, async () => (await core.brokerHttp(cluster)).listUsers());
  const page = pageByName(users, (user) => user.name, after, pageSizeOf(input));
  return {
    items: page.items,
    nextPageToken: page.last && core.pageTokens.seal(scope, [page.last]),
  };
}
