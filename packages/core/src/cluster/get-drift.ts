import type { Cluster, ClusterId, Principal } from "@millrace/domain";
import type { ChangePlan } from "@millrace/provisioner";
import type { Core } from "../core.ts";
import { requireCluster } from "./require-cluster.ts";

export interface DriftView {
  readonly cluster: Cluster;
  /** What differs: `before` is what was made, `after` what was found. */
  readonly plan: ChangePlan | undefined;
}

/** How what exists differs from what was made, as of the last look. Throws `not_found`. */
export async function getDrift(
  core: Core,
  principal: Principal,
  id: ClusterId,
): Promise<DriftView> {
  return viewDrift(core, await requireCluster(core, principal, id));
}

/** The cluster's drift with the plan that the operation left which found it. */
export async function viewDrift(core: Core, cluster: Cluster): Promise<DriftView> {
  const { status, operationId } = cluster.drift;
  const differs = status === "drifted" || status === "accepted";
  const stored =
    differs && operationId !== undefined
      ? await core.db.operationPlans.get(operationId)
      : undefined;
  return { cluster, plan: stored?.plan as ChangePlan | undefined };
}
