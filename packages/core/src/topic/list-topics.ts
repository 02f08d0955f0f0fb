import type { ClusterId, DescribedTopic, Principal, Topic } from "@millrace/domain";
import type { KafkaAdminPort } from "../broker-access.ts";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageByName, pageSizeOf } from "../page.ts";
import type { PageScope } from "../page-token.ts";

export interface ListTopicsInput extends PageInput {
  readonly clusterId: ClusterId;
  /** Each topic with its settings. */
  readonly withConfigs?: boolean | undefined;
}

/** A topic, with its settings where they were asked for. */
export type ListedTopic = Topic | DescribedTopic;

/** Topics by name. Throws `not_found`, `cluster_not_ready`, `broker_unavailable`. */
export async function listTopics(
  core: Core,
  principal: Principal,
  input: ListTopicsInput,
): Promise<PageResult<ListedTopic>> {
  const cluster = await requireServingCluster(core, principal, input.clusterId);
  const scope: PageScope = {
    organizationId: principal.organizationId,
    list: "topics",
    filter: { clusterId: input.clusterId },
  };
  const after = input.pageToken && core.pageTokens.open(scope, input.pageToken)[0];
  const page = await atBroker(undefined, () =>
    core.kafka(cluster, async (admin) => {
      const topics = await admin.listTopics();
      const found = pageByName(topics, (topic) => topic.name, after, pageSizeOf(input));
      if (!input.withConfigs) return found;
      return { ...found, items: await withConfigs(admin, found.items) };
    }),
  );
  return {
    items: page.items,
    nextPageToken: page.last && core.pageTokens.seal(scope, [page.last]),
  };
}

/** One request for all of them. */
async function withConfigs(
  admin: KafkaAdminPort,
  topics: readonly Topic[],
): Promise<DescribedTopic[]> {
  const configs = await admin.describeTopicConfigs(topics.map((topic) => topic.name));
  return topics.map((topic) => ({ ...topic, configs: configs.get(topic.name) ?? {} }));
}
