import type { Benchmark, ClusterId, Principal } from "@millrace/domain";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
import { openCursor, type PageScope, sealCursor } from "../page-token.ts";

export interface ListBenchmarksInput extends PageInput {
  readonly clusterId: ClusterId;
}

/** A cluster's benchmarks, newest first. Throws `not_found`, `invalid_page_token`. */
export async function listBenchmarks(
  core: Core,
  principal: Principal,
  input: ListBenchmarksInput,
): Promise<PageResult<Benchmark>> {
  const cluster = await requireCluster(core, principal, input.clusterId);
  const scope: PageScope = {
    organizationId: principal.organizationId,
    list: "benchmarks",
    filter: { clusterId: cluster.id },
  };
  const after = openCursor(core.pageTokens, scope, input.pageToken);
  const page = await core.db.benchmarks.list(cluster.id, { limit: pageSizeOf(input), after });
  return { items: page.items, nextPageToken: sealCursor(core.pageTokens, scope, page.next) };
}
