import type { ClusterId, ConsumerGroup, Principal } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
import type { PageScope } from "../page-token.ts";

export interface ListConsumerGroupsInput extends PageInput {
  readonly clusterId: ClusterId;
}

/** Groups by id with their lag. Throws `not_found`, `cluster_not_ready`, `broker_unavailable`. */
export async function listConsumerGroups(
  core: Core,
  principal: Principal,
  input: ListConsumerGroupsInput,
): Promise<PageResult<ConsumerGroup>> {
  const cluster = await requireServingCluster(core, principal, input.clusterId);
  const scope: PageScope = {
    organizationId: principal.organizationId,
    list: "consumer-groups",
    filter: { clusterId: input.clusterId },
  };
  const after = input.pageToken && core.pageTokens.open(scope, input.pageToken)[0];
  const range = { after, limit: pageSizeOf(input) };
  const { groups, next } = await atBroker(undefined, async () => {
    const http = await core.brokerHttp(cluster);
    return await http.groups.list(range);
  });
  return { items: groups, nextPageToken: next && core.pageTokens.seal(scope, [next]) };
}
