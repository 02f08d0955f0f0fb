import { type Cluster, type ClusterId, type Principal, purgeAt } from "@millrace/domain";
import { changePlan } from "@millrace/provisioner";
import type { Core } from "../core.ts";
import { type ChangePreview, cents, changeOf } from "./change-preview.ts";
import { deletionOf } from "./cluster-deletion.ts";
import { estimateOf } from "./cluster-estimate.ts";
import { requireCluster } from "./require-cluster.ts";

export interface PreviewDeleteInput {
  readonly clusterId: ClusterId;
  readonly retainDays?: number | undefined;
}

/** What deleting the cluster would do. Throws `not_found`, and as `PlanSlots.run` does. */
export async function previewDelete(
  core: Core,
  principal: Principal,
  input: PreviewDeleteInput,
  signal: AbortSignal,
): Promise<ChangePreview> {
  const cluster = await requireCluster(core, principal, input.clusterId);
  const { kind, days } = await deletionOf(core.db, cluster, input.retainDays);
  const left = estimateOf({ ...cluster, phase: "PENDING_PURGE" });
  if (kind === "deleted") {
    const warning = `The cluster is already deleted. ${kept(cluster.purgeAt)}`;
    const plan = changePlan("nothing", []);
    return { plan, specChanges: [], cost: left, costDelta: 0, warnings: [warning] };
  }
  const until = kind === "purge" ? undefined : untilWhen(core, cluster, days);
  const purpose = until === undefined ? "purge" : "destroy";
  const caller = { owner: principal.organizationId, signal };
  const plan = await core.planSlots.run(caller, (slot) =>
    changeOf(core, cluster, cluster, purpose, slot),
  );
  const cost = until === undefined ? { ...left, total: 0, lines: [] } : left;
  const costDelta = cents(cost.total - estimateOf(cluster).total);
  const dataKept = until === undefined ? "All records are deleted permanently." : kept(until);
  return { plan, specChanges: [], cost, costDelta, warnings: [...protection(cluster), dataKept] };
}

/** `days` is undefined where the cluster's own time stays. */
function untilWhen({ clock }: Core, cluster: Cluster, days: number | undefined): Date | undefined {
  return days === undefined ? cluster.purgeAt : purgeAt(clock.now(), days);
}

function kept(until: Date | undefined): string {
  return `The data is kept until ${until?.toISOString()} and costs the amount shown until then.`;
}

function protection({ deletionProtection }: Cluster): string[] {
  return deletionProtection
    ? ["Deletion protection is on: deletion is rejected until it is off."]
    : [];
}
