import type { Cluster, Principal } from "@millrace/domain";
import type { ChangePlan } from "@millrace/provisioner";
import type { Core } from "../core.ts";
import { type ChangePreview, cents, changeOf, warningsOf } from "./change-preview.ts";
import { estimateOf } from "./cluster-estimate.ts";
import { requireCluster } from "./require-cluster.ts";
import { type UpdateClusterInput, validateUpdate } from "./update-cluster.ts";

/** What changing the cluster would do. Throws as `updateCluster` and `PlanSlots.run` do. */
export async function previewUpdate(
  core: Core,
  principal: Principal,
  input: UpdateClusterInput,
  signal: AbortSignal,
): Promise<ChangePreview> {
  const cluster = await requireCluster(core, principal, input.clusterId);
  const { wanted } = validateUpdate(cluster, input);
  const purpose = wanted.paused ? "pause" : "apply";
  const caller = { owner: principal.organizationId, signal };
  const plan = await core.planSlots.run(caller, (slot) =>
    changeOf(core, cluster, wanted, purpose, slot),
  );
  const cost = estimateOf(wanted);
  const costDelta = cents(cost.total - estimateOf(cluster).total);
  const warnings = [...interruptions(plan), ...undone(cluster), ...warningsOf(wanted)];
  return { plan, cost, costDelta, warnings };
}

/** What clients notice of a change. */
function interruptions({ changes }: ChangePlan): string[] {
  const touches = (type: string) =>
    changes.some((change) => change.type === type && change.action !== "create");
  if (touches("aws_launch_template")) {
    return [
      "Slots are replaced one by one; a cluster of one broker does not serve for some minutes.",
    ];
  }
  if (touches("process")) {
    return ["The broker stops or restarts: clients are not served meanwhile."];
  }
  return [];
}

/**
 * An operation makes the cluster what its spec says, and what was changed by hand is in no spec. What
 * no stack speaks of stays, so nobody is told that all is well before it is looked at.
 */
function undone({ drift }: Cluster): string[] {
  if (drift.status !== "drifted" && drift.status !== "accepted") return [];
  const accepted = drift.status === "accepted" ? ", also what was accepted" : "";
  return [
    `What was changed outside of Millrace is undone with this change${accepted}. Whether anything of it is left is looked at afterwards.`,
  ];
}
