import type { EnvironmentId, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
import { openCursor, type PageScope, sealCursor } from "../page-token.ts";
import { type ClusterView, listenersBeforeChange } from "./get-cluster.ts";

export interface ListClustersInput extends PageInput {
  readonly environmentId?: EnvironmentId | undefined;
}

/** The tenant's clusters, newest first. Throws `invalid_page_token`. */
export async function listClusters(
  core: Core,
  principal: Principal,
  input: ListClustersInput,
): Promise<PageResult<ClusterView>> {
  const filter = { environmentId: input.environmentId };
  const scope: PageScope = { organizationId: principal.organizationId, list: "clusters", filter };
  const after = openCursor(core.pageTokens, scope, input.pageToken);
  const limit = pageSizeOf(input);
  return core.db.transaction(async (tx) => {
    const page = await tx.clusters.list(principal.organizationId, { limit, after }, filter);
    const ids = page.items.map((cluster) => cluster.id);
    const latest = await tx.operations.latestOf(ids);
    const links = await tx.brokerLinks.list(ids);
    const listeners = await listenersBeforeChange(tx, page.items);
    return {
      items: page.items.map((cluster) => ({
        cluster,
        operationId: latest.get(cluster.id),
        listeners: listeners.get(cluster.id),
        links: links.filter(({ clusterId }) => clusterId === cluster.id),
      })),
      nextPageToken: sealCursor(core.pageTokens, scope, page.next),
    };
  });
}
