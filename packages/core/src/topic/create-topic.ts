import type { ClusterId, DescribedTopic, Principal } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireBootstrapServers } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

export interface CreateTopicInput {
  readonly clusterId: ClusterId;
  readonly name: string;
  readonly partitions: number;
  readonly configs: Readonly<Record<string, string>>;
}

/**
 * Throws `not_found`, `cluster_not_ready`, `topic_name_taken`, `validation_failed` where the broker
 * refuses the settings, `broker_unavailable`.
 */
export async function createTopic(
  core: Core,
  principal: Principal,
  { clusterId, ...topic }: CreateTopicInput,
): Promise<DescribedTopic> {
  const bootstrapServers = await requireBootstrapServers(core, principal, clusterId);
  return atBroker(topic.name, () =>
    core.kafka({ bootstrapServers }, async (admin) => {
      await admin.createTopic(topic);
      return admin.describeTopic(topic.name);
    }),
  );
}
