import type { TopicConfigChanges } from "@millrace/broker-admin";
import {
  type ClusterId,
  type DescribedTopic,
  DomainError,
  isTopicName,
  notFound,
  type Principal,
} from "@millrace/domain";
import type { KafkaAdminPort } from "../broker-access.ts";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

export interface UpdateTopicInput {
  readonly clusterId: ClusterId;
  readonly topicName: string;
  /** In all; never fewer than there are. */
  readonly partitions?: number | undefined;
  /** A merge patch: what is absent stays, null is the default again. */
  readonly configs?: TopicConfigChanges | undefined;
  /** Asks the broker, and changes nothing. */
  readonly validateOnly?: boolean | undefined;
}

/**
 * Changes a topic's settings, then adds partitions; both are validated before either is made. Throws
 * `not_found`, `cluster_not_ready`, `partitions_decrease`, `validation_failed` where the broker
 * refuses a setting, `broker_unavailable`.
 */
export async function updateTopic(
  core: Core,
  principal: Principal,
  input: UpdateTopicInput,
): Promise<DescribedTopic> {
  const cluster = await requireServingCluster(core, principal, input.clusterId);
  const { topicName } = input;
  if (!isTopicName(topicName)) throw notFound("topic", topicName);
  return atBroker(topicName, () =>
    core.kafka(cluster, async (admin) => {
      const before = await admin.describeTopic(topicName);
      const partitions = growth(before, input.partitions);
      const changes = effective(before, input.configs ?? {});
      await alter(admin, topicName, { partitions, changes, validateOnly: true });
      if (input.validateOnly) return before;
      await core.beforeBrokerChange?.();
      await alter(admin, topicName, { partitions, changes, validateOnly: false });
      return admin.describeTopic(topicName);
    }),
  );
}

async function alter(
  admin: KafkaAdminPort,
  name: string,
  change: {
    readonly partitions: number | undefined;
    readonly changes: TopicConfigChanges;
    readonly validateOnly: boolean;
  },
): Promise<void> {
  const { partitions, changes, validateOnly } = change;
  await admin.alterTopicConfigs(name, changes, { validateOnly });
  if (partitions !== undefined) await admin.createPartitions(name, partitions, { validateOnly });
}

/** The wanted number where it is more than there are; undefined where nothing is to be done. */
function growth(before: DescribedTopic, wanted: number | undefined): number | undefined {
  if (wanted === undefined || wanted === before.partitions) return undefined;
  if (wanted > before.partitions) return wanted;
  throw new DomainError(
    "partitions_decrease",
    `Topic ${before.name} has ${before.partitions} partitions. They cannot be reduced to ${wanted}.`,
    {
      remedy:
        "Request the same number or more. For fewer, create another topic and copy the records.",
      fields: [
        {
          pointer: "/partitions",
          code: "too_small",
          message: `must be at least ${before.partitions}, the current number`,
        },
      ],
    },
  );
}

/** The changes without those that ask for what is so already, set on the topic itself. */
function effective(before: DescribedTopic, changes: TopicConfigChanges): TopicConfigChanges {
  return Object.fromEntries(
    Object.entries(changes).filter(([name, value]) => {
      const now = before.configs[name];
      if (value === null) return now?.source === "topic";
      return now?.source !== "topic" || now.value !== value;
    }),
  );
}
