import { byteText, type Cluster, type Principal, sizingOf, walCapacityOf } from "@millrace/domain";
import type { ChangePlan } from "@millrace/provisioner";
import type { Core } from "../core.ts";
import { type ChangePreview, cents, changeOf, warningsOf } from "./change-preview.ts";
import { estimateOf } from "./cluster-estimate.ts";
import { refuseTakenName } from "./create-cluster.ts";
import { requireCluster } from "./require-cluster.ts";
import { specChanges } from "./spec-changes.ts";
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
  if (wanted.name !== cluster.name) await refuseTakenName(core, cluster.environmentId, wanted.name);
  const purpose = wanted.paused ? "pause" : "apply";
  const caller = { owner: principal.organizationId, signal };
  const plan = await core.planSlots.run(caller, (slot) =>
    changeOf(core, cluster, wanted, purpose, slot),
  );
  const cost = estimateOf(wanted);
  const costDelta = cents(cost.total - estimateOf(cluster).total);
  const warnings = [
    ...interruptions(plan, cluster),
    ...closedListener(cluster, wanted),
    ...walKept(cluster, wanted),
    ...undone(cluster),
    ...warningsOf(wanted),
  ];
  return { plan, specChanges: specChanges(cluster, wanted), cost, costDelta, warnings };
}

/** What clients notice of a change. */
function interruptions({ changes }: ChangePlan, { brokers }: Cluster): string[] {
  const touches = (type: string) =>
    changes.some((change) => change.type === type && change.action !== "create");
  if (touches("aws_launch_template") && brokers === 1) {
    return ["The broker's instance is replaced: it is down for some minutes."];
  }
  if (touches("aws_launch_template")) {
    return [
      "Instances are replaced or removed one at a time, after their partitions have moved to the other brokers. " +
        "Clients are redirected.",
    ];
  }
  if (touches("process") && brokers > 1) {
    return [
      "Brokers restart or stop one at a time, after their partitions have moved to the others. Clients are redirected.",
    ];
  }
  if (touches("process")) {
    return ["The broker will restart. Clients are disconnected meanwhile."];
  }
  return [];
}

function closedListener(before: Cluster, wanted: Cluster): string[] {
  if (wanted.plaintextListener || !before.plaintextListener) return [];
  return ["Clients that do not use TLS and a password can no longer connect."];
}

/** A local cluster's log is not resized. On AWS the plan shows the volume. */
function walKept(before: Cluster, wanted: Cluster): string[] {
  const kept = walCapacityOf(wanted);
  if (wanted.aws !== undefined || wanted.size === before.size) return [];
  if (kept === sizingOf(wanted.size).walBytes) return [];
  return [`The write-ahead log keeps its ${byteText(kept)}.`];
}

/**
 * An operation makes the cluster match its spec, which manual changes are not part of. Resources that
 * no stack knows stay, so the cluster counts as in sync only after another check.
 */
function undone({ drift }: Cluster): string[] {
  if (drift.status !== "drifted" && drift.status !== "accepted") return [];
  const drifted = drift.status === "accepted" ? "accepted drift" : "drift";
  return [
    `This change also undoes ${drifted}. The cluster is checked for remaining drift afterwards.`,
  ];
}
