import { type ClientQuota, type ClusterId, type Principal, quotaKey } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageByName, pageSizeOf } from "../page.ts";
import type { PageScope } from "../page-token.ts";

export interface ListQuotasInput extends PageInput {
  readonly clusterId: ClusterId;
}

/** Quotas by user, then client id. Throws `not_found`, `cluster_not_ready`, `broker_unavailable`. */
export async function listQuotas(
  core: Core,
  principal: Principal,
  input: ListQuotasInput,
): Promise<PageResult<ClientQuota>> {
  const cluster = await requireServingCluster(core, principal, input.clusterId);
  const scope: PageScope = {
    organizationId: principal.organizationId,
    list: "quotas",
    filter: { clusterId: input.clusterId },
  };
  const after = input.pageToken && core.pageTokens.open(scope, input.pageToken)[0];
  const quotas = await atBroker(undefined, async () =>
    (await core.brokerHttp(cluster)).listQuotas(),
  );
  const page = pageByName(quotas, quotaKey, after, pageSizeOf(input));
  return {
    items: page.items,
    nextPageToken: page.last && core.pageTokens.seal(scope, [page.last]),
  };
}
