import type { TopicConfigChanges } from "@millrace/broker-admin";
import {
  type ClusterId,
  type DescribedTopic,
  DomainError,
  isTopicName,
  type Principal,
} from "@millrace/domain";
import { atBroker, noneNamed } from "../broker-failure.ts";
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
  if (!isTopicName(topicName)) throw noneNamed("topic", topicName);
  return atBroker(topicName, async () => {
    const { topics } = await core.brokerHttp(cluster);
    const before = await topics.describe(topicName);
    const change = {
      partitions: growth(before, input.partitions),
      configs: effective(before, input.configs ?? {}),
    };
    await topics.change(topicName, change, { validateOnly: true });
    if (input.validateOnly) return before;
    await core.beforeBrokerChange?.();
    await topics.change(topicName, change);
    return await topics.describe(topicName);
  });
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
