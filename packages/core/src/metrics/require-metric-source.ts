import { brokerIdsOf, type Cluster, DomainError, notFound, type Principal } from "@millrace/domain";
import { getConsumerGroup } from "../consumer-group/get-consumer-group.ts";
import type { Core } from "../core.ts";
import { getTopic } from "../topic/get-topic.ts";

/** What a query of metrics is narrowed to, one of these at most. */
export interface MetricSource {
  readonly brokerId?: number | undefined;
  readonly topic?: string | undefined;
  readonly groupId?: string | undefined;
}

/**
 * Asks the broker whether a source exists that has no point in a range: a name with a typing mistake should not look like
 * no traffic. Throws `not_found`, and nothing else: of a cluster that cannot be asked, such as a paused one, nothing is known.
 */
export async function requireMetricSource(
  core: Core,
  principal: Principal,
  cluster: Pick<Cluster, "id" | "brokers">,
  { brokerId, topic, groupId }: MetricSource,
): Promise<void> {
  const { id: clusterId } = cluster;
  if (brokerId !== undefined && !brokerIdsOf(cluster).includes(brokerId)) {
    throw notFound("broker", `${brokerId}`);
  }
  try {
    if (topic !== undefined) await getTopic(core, principal, { clusterId, topicName: topic });
    if (groupId !== undefined) await getConsumerGroup(core, principal, { clusterId, groupId });
  } catch (error) {
    if (!(error instanceof DomainError) || error.code === "not_found") throw error;
  }
}
