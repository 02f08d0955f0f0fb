import type { Cluster, ClusterId, Principal, Tuning, TuningChange } from "@millrace/domain";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { type PageInput, type PageResult, pageSizeOf } from "../page.ts";
import { openCursor, type PageScope, sealCursor } from "../page-token.ts";

export interface ListTuningChangesInput extends PageInput {
  readonly clusterId: ClusterId;
}

export interface TuningChangeView {
  readonly change: TuningChange;
  /**
   * Whether the broker has it, or is yet to get it, or refused it when it came, or never got it
   * because later changes took the place of all of it.
   */
  readonly result: "applied" | "pending" | "refused" | "superseded";
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

/**
 * A broker that has a version has every older one in it. What it has not is given to it, or refused,
 * as a whole: all that is still asked for, whichever change asked for it.
 */
function viewChange({ tuning }: Cluster, change: TuningChange): TuningChangeView {
  const { version } = change;
  if (version <= tuning.appliedVersion) return { change, result: "applied", problem: undefined };
  if (version < tuning.version && !isStillAsked(tuning, change)) {
    return { change, result: "superseded", problem: undefined };
  }
  // A version beyond the cluster's own was made between reading the one and the other.
  if (version > tuning.version || tuning.problem === undefined) {
    return { change, result: "pending", problem: undefined };
  }
  return { change, result: "refused", problem: tuning.problem };
}

/** Whether any part of the change is what is asked for now. */
function isStillAsked({ overrides }: Tuning, { changes }: TuningChange): boolean {
  return changes.some(({ knob, to, toDefault }) => overrides[knob] === (toDefault ? null : to));
}
