import type { ClusterId, DescribedConsumerGroup, Principal } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

export interface GetConsumerGroupInput {
  readonly clusterId: ClusterId;
  readonly groupId: string;
}

/** One group with its members and partitions. Throws `not_found`, `cluster_not_ready`, `broker_unavailable`. */
export async function getConsumerGroup(
  core: Core,
  principal: Principal,
  { clusterId, groupId }: GetConsumerGroupInput,
): Promise<DescribedConsumerGroup> {
  const cluster = await requireServingCluster(core, principal, clusterId);
  return atBroker(groupId, async () => {
    const { groups } = await core.brokerHttp(cluster);
    return await groups.describe(groupId);
  });
}
