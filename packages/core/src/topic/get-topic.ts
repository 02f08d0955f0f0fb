import { type ClusterId, type DescribedTopic, isTopicName, type Principal } from "@millrace/domain";
import { atBroker, noneNamed } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

export interface GetTopicInput {
  readonly clusterId: ClusterId;
  readonly topicName: string;
}

/** Throws `not_found`, `cluster_not_ready`, `broker_unavailable`. */
export async function getTopic(
  core: Core,
  principal: Principal,
  { clusterId, topicName }: GetTopicInput,
): Promise<DescribedTopic> {
  const cluster = await requireServingCluster(core, principal, clusterId);
  // The broker's internal topics are none of the tenant's, nor is a name that no topic can have.
  if (!isTopicName(topicName)) throw noneNamed("topic", topicName);
  return atBroker(topicName, async () => {
    const { topics } = await core.brokerHttp(cluster);
    return await topics.describe(topicName);
  });
}
