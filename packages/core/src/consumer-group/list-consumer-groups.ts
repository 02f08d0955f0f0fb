import type { ClusterId, ConsumerGroup, Principal } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageByName, pageSizeOf } from "../page.ts";
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
  let last: string | undefined;
  // The broker describes the groups of this page, not all that there are.
  const items = await atBroker(undefined, () =>
    core.kafka(cluster, (admin) =>
      admin.listConsumerGroups((ids) => {
        const page = pageByName(ids, (id) => id, after, pageSizeOf(input));
        last = page.last;
        return page.items;
      }),
    ),
  );
  return { items, nextPageToken: last && core.pageTokens.seal(scope, [last]) };
}
