import { setTimeout as sleep } from "node:timers/promises";
import { BrokerError, type BrokerTopics } from "@millrace/broker-admin";
import type { Clock, ClusterId, DescribedTopic, Principal } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

/** With the request's own ten seconds, half of the minute after which proxies cut a connection. */
const LATE_MS_MAX = 20_000;
const LATE_POLL_MS = 500;

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
  const cluster = await requireServingCluster(core, principal, clusterId);
  return atBroker(topic.name, async () => {
    const { topics } = await core.brokerHttp(cluster);
    await core.beforeBrokerChange?.();
    try {
      await topics.create(topic);
    } catch (error) {
      if (!isTimeout(error)) throw error;
      return await awaitTopic(core.clock, topics, topic, error);
    }
    return await topics.describe(topic.name);
  });
}

/** A broker that was too slow to answer goes on with its work: thousands of partitions take seconds. */
async function awaitTopic(
  clock: Clock,
  topics: Pick<BrokerTopics, "describe">,
  { name, partitions }: Pick<CreateTopicInput, "name" | "partitions">,
  timeout: unknown,
): Promise<DescribedTopic> {
  const until = clock.now().getTime() + LATE_MS_MAX;
  while (clock.now().getTime() < until) {
    const found = await topics.describe(name).catch((error: unknown) => {
      if (isTimeout(error) || isMissing(error)) return undefined;
      throw error;
    });
    if (found?.partitions === partitions) return found;
    if (found !== undefined) break;
    await sleep(LATE_POLL_MS);
  }
  throw timeout;
}

function isTimeout(error: unknown): boolean {
  return error instanceof BrokerError && error.code === "timeout";
}

function isMissing(error: unknown): boolean {
  return error instanceof BrokerError && error.code === "topic_not_found";
}
