import { isAwsRegion, type Principal } from "@millrace/domain";
import { changePlan } from "@millrace/provisioner";
import type { Core } from "../core.ts";
import { type ChangePreview, planOf } from "./change-preview.ts";
import { estimateOf } from "./cluster-estimate.ts";
import { assertMatches, type ClusterTarget } from "./lock-cluster.ts";
import { assertRecoverable } from "./recoverable.ts";
import { requireCluster } from "./require-cluster.ts";

/**
 * What recovering the cluster would bring back, and what is missing. On AWS only the slot knows, and
 * only an operation reads its report. Throws as `recoverCluster` and `PlanSlots.run` do.
 */
export async function previewRecover(
  core: Core,
  principal: Principal,
  { clusterId, ifMatch }: ClusterTarget,
  signal: AbortSignal,
): Promise<ChangePreview> {
  const cluster = await requireCluster(core, principal, clusterId);
  assertMatches(cluster, ifMatch);
  assertRecoverable(cluster);
  const cost = estimateOf(cluster);
  if (isAwsRegion(cluster.region)) {
    const warning =
      "The slot reports what is lost, and the operation reads that report: start the operation to " +
      "see it. Nothing changes before you approve its plan.";
    const plan = changePlan("unknown", []);
    return { plan, specChanges: [], cost, costDelta: 0, warnings: [warning] };
  }
  const caller = { owner: principal.organizationId, signal };
  const plan = await core.planSlots.run(caller, (slot) => planOf(core, cluster, "recover", slot));
  return { plan, specChanges: [], cost, costDelta: 0, warnings: plan.recovery?.warnings ?? [] };
}
