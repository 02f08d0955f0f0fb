import type { ClusterId, Principal } from "@millrace/domain";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { readSettings } from "./broker-tuning.ts";
import { type TuningView, viewTuning } from "./tuning-view.ts";

/** A cluster's tuning, whatever its phase. Throws `not_found`. */
export async function getTuning(
  core: Core,
  principal: Principal,
  id: ClusterId,
): Promise<TuningView> {
  const cluster = await requireCluster(core, principal, id);
  return viewTuning(cluster, await readSettings(core, cluster));
}
