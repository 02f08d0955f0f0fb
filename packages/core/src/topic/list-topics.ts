import type { ClusterId, DescribedTopic, Principal, Topic } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
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
  const range = { after, limit: pageSizeOf(input) };
  const { topics, next } = await atBroker(undefined, async () => {
    const http = await core.brokerHttp(cluster);
    return input.withConfigs ? http.topics.listDescribed(range) : http.topics.list(range);
  });
  return { items: topics, nextPageToken: next && core.pageTokens.seal(scope, [next]) };
}
