import type { Cluster, ClusterId, Principal, TuningChange } from "@millrace/domain";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
import { openCursor, type PageScope, sealCursor } from "../page-token.ts";

export interface ListTuningChangesInput extends PageInput {
  readonly clusterId: ClusterId;
}

export interface TuningChangeView {
  readonly change: TuningChange;
  /** Whether the broker has it, or is yet to get it, or refused it when it came. */
  readonly result: "applied" | "pending" | "refused";
  /** The broker's words, where it refused. */
  readonly problem: string | undefined;
}

/** Who changed what, newest first. Throws `not_found`, `invalid_page_token`. */
export async function listTuningChanges(
  core: Core,
  principal: Principal,
  input: ListTuningChangesInput,
): Promise<PageResult<TuningChangeView>> {
  const cluster = await requireCluster(core, principal, input.clusterId);
  const scope: PageScope = {
    organizationId: principal.organizationId,
    list: "tuning-changes",
    filter: { clusterId: cluster.id },
  };
  const after = openCursor(core.pageTokens, scope, input.pageToken);
  const page = await core.db.tuning.changes(cluster.id, { limit: pageSizeOf(input), after });
  return {
    items: page.items.map((change) => viewChange(cluster, change)),
    nextPageToken: sealCursor(core.pageTokens, scope, page.next),
  };
}

/** A broker that has a version has every older one in it. */
function viewChange({ tuning }: Cluster, change: TuningChange): TuningChangeView {
  if (change.version <= tuning.appliedVersion) {
    return { change, result: "applied", problem: undefined };
  }
  const current = change.version === tuning.version;
  if (!current || tuning.problem === undefined) {
    return { change, result: "pending", problem: undefined };
  }
  return { change, result: "refused", problem: tuning.problem };
}
