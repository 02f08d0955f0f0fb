import type { ClusterId, Principal, Topic } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireBootstrapServers } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageByName, pageSizeOf } from "../page.ts";
import type { PageScope } from "../page-token.ts";

export interface ListTopicsInput extends PageInput {
  readonly clusterId: ClusterId;
}

/** Topics by name. Throws `not_found`, `cluster_not_ready`, `broker_unavailable`. */
export async function listTopics(
  core: Core,
  principal: Principal,
  input: ListTopicsInput,
): Promise<PageResult<Topic>> {
  const bootstrapServers = await requireBootstrapServers(core, principal, input.clusterId);
  const scope: PageScope = {
    organizationId: principal.organizationId,
    list: "topics",
    filter: { clusterId: input.clusterId },
  };
  const after = input.pageToken && core.pageTokens.open(scope, input.pageToken)[0];
  const topics = await atBroker(undefined, () =>
    core.kafka({ bootstrapServers }, (admin) => admin.listTopics()),
  );
  const page = pageByName(topics, (topic) => topic.name, after, pageSizeOf(input));
  return {
    items: page.items,
    nextPageToken: page.last && core.pageTokens.seal(scope, [page.last]),
  };
}
