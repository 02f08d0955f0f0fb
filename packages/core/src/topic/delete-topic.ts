import { type ClusterId, isTopicName, type Principal } from "@millrace/domain";
import { atBroker, noneNamed } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

export interface DeleteTopicInput {
  readonly clusterId: ClusterId;
  readonly topicName: string;
}

/** Throws `not_found`, `cluster_not_ready`, `broker_unavailable`. */
export async function deleteTopic(
  core: Core,
  principal: Principal,
  { clusterId, topicName }: DeleteTopicInput,
): Promise<void> {
  const cluster = await requireServingCluster(core, principal, clusterId);
  // The broker's internal topics are none of the tenant's, nor is a name that no topic can have.
  if (!isTopicName(topicName)) throw noneNamed("topic", topicName);
  await atBroker(topicName, async () => {
    const { topics } = await core.brokerHttp(cluster);
    await core.beforeBrokerChange?.();
    await topics.delete(topicName);
  });
}
