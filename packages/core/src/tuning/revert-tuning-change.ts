import {
  type ClusterId,
  isId,
  notFound,
  type Principal,
  revertPatch,
  type TuningChangeId,
} from "@millrace/domain";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import type { TuningView } from "./tuning-view.ts";
import { updateTuning } from "./update-tuning.ts";

/**
 * Restores the values that a change replaced, as a new change that names it. Throws `not_found`, what `updateTuning`
 * throws, and `tuning_changed_since` where a later change touched one of the settings.
 */
export async function revertTuningChange(
  core: Core,
  principal: Principal,
  input: { readonly clusterId: ClusterId; readonly changeId: TuningChangeId },
): Promise<TuningView> {
  const cluster = await requireCluster(core, principal, input.clusterId);
  const reverts = isId("tch", input.changeId)
    ? await core.db.tuning.change(cluster.id, input.changeId)
    : undefined;
  if (reverts === undefined) throw notFound("tuning change", input.changeId);
  const patch = revertPatch(cluster, reverts.changes);
  return updateTuning(core, principal, { clusterId: cluster.id, patch, reverts });
}
