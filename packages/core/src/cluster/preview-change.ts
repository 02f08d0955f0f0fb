import {
  awsSizing,
  type Cluster,
  type ClusterId,
  type CostEstimate,
  DomainError,
  estimateMonthly,
  isAwsRegion,
  type Placement,
  type Principal,
  purgeAt,
  UNTOUCHED_TUNING,
  walVolumeWarnings,
} from "@millrace/domain";
import {
  type ChangePlan,
  changePlan,
  type PlanPurpose,
  ProvisionError,
} from "@millrace/provisioner";
import type { Core } from "../core.ts";
import { planDifference, planRemoval } from "../planning/plan-difference.ts";
import { deploymentAt } from "./cluster-deployment.ts";
import { fateOf } from "./cluster-fate.ts";
import { type CreateClusterInput, judgeCreate, withExistingId } from "./create-cluster.ts";
import { requireCluster } from "./require-cluster.ts";
import { judgeUpdate, type UpdateClusterInput } from "./update-cluster.ts";

/** What a change would do. Nothing has been done. */
export interface ChangePreview {
  readonly plan: ChangePlan;
  readonly cost: CostEstimate;
  /** USD per month, against what the cluster costs now. */
  readonly costDelta: number;
  readonly warnings: readonly string[];
}

/** Stands for the id that a cluster would get, so that the same preview has the same digest. */
const PREVIEW_ID: ClusterId = "clu_00000000000000000000000000";

/**
 * What creating the cluster would do. `signal` aborts when the caller has gone, here as in the
 * other previews. Throws as `createCluster` and `PlanSlots.run` do.
 */
export async function previewCreate(
  core: Core,
  principal: Principal,
  input: CreateClusterInput,
  signal: AbortSignal,
): Promise<ChangePreview> {
  const { environment, spec } = await judgeCreate(core, principal, input);
  if (await core.db.clusters.findByName(environment.id, input.name)) {
    const taken = new DomainError(
      "cluster_name_taken",
      `There is a cluster ${input.name} in this environment already.`,
      {
        remedy: "Choose another name, or delete the other cluster first.",
        fields: [{ pointer: "/name", code: "taken", message: "is taken in this environment" }],
      },
    );
    throw await withExistingId(core, taken, environment.id, input.name);
  }
  const now = core.clock.now();
  const wanted: Cluster = {
    id: PREVIEW_ID,
    organizationId: principal.organizationId,
    environmentId: environment.id,
    name: input.name,
    region: input.region,
    size: input.size,
    labels: input.labels ?? {},
    tuning: UNTOUCHED_TUNING,
    phase: "PROVISIONING",
    conditions: [],
    revision: 1,
    observedRevision: 0,
    version: 1,
    placement: undefined,
    deletionProtection: input.deletionProtection ?? false,
    brokers: input.brokers ?? 1,
    zones: spec.zones,
    aws: spec.aws,
    paused: false,
    purgeAt: undefined,
    dataDestroyedAt: undefined,
    drift: { status: "unknown", checkedAt: undefined, digest: undefined, operationId: undefined },
    createdAt: now,
    updatedAt: now,
    deletedAt: undefined,
  };
  const cost = estimateOf(wanted);
  const caller = { owner: principal.organizationId, signal };
  const plan = await core.planSlots.run(caller, (slot) => planOf(core, wanted, "apply", slot));
  return { plan, cost, costDelta: cost.total, warnings: warningsOf(wanted) };
}

/** What changing the cluster would do. Throws as `updateCluster` and `PlanSlots.run` do. */
export async function previewUpdate(
  core: Core,
  principal: Principal,
  input: UpdateClusterInput,
  signal: AbortSignal,
): Promise<ChangePreview> {
  const cluster = await requireCluster(core, principal, input.clusterId);
  const { wanted } = judgeUpdate(cluster, input);
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
  const { kind, days } = await fateOf(core.db, cluster, input.retainDays);
  const left = estimateOf({ ...cluster, phase: "PENDING_PURGE" });
  if (kind === "deleted") {
    const warning = `It is deleted already: nothing changes. ${kept(cluster.purgeAt)}`;
    return { plan: changePlan("nothing", []), cost: left, costDelta: 0, warnings: [warning] };
  }
  const until = kind === "purge" ? undefined : untilWhen(core, cluster, days);
  const purpose = until === undefined ? "purge" : "destroy";
  const caller = { owner: principal.organizationId, signal };
  const plan = await core.planSlots.run(caller, (slot) =>
    changeOf(core, cluster, cluster, purpose, slot),
  );
  const cost = until === undefined ? { ...left, total: 0, lines: [] } : left;
  const costDelta = cents(cost.total - estimateOf(cluster).total);
  const fate = until === undefined ? "All records are lost." : kept(until);
  return { plan, cost, costDelta, warnings: [...protection(cluster), fate] };
}

/** `days` is undefined where the cluster's own time stays. */
function untilWhen({ clock }: Core, cluster: Cluster, days: number | undefined): Date | undefined {
  return days === undefined ? cluster.purgeAt : purgeAt(clock.now(), days);
}

function kept(until: Date | undefined): string {
  return `The data is kept until ${until?.toISOString()}, and costs what is shown until then.`;
}

/** What the cluster costs in a month, as far as can be told. */
export function estimateOf(cluster: Cluster): CostEstimate {
  const { region, size, brokers, zones, aws, paused } = cluster;
  const retained = cluster.phase === "PENDING_PURGE";
  return estimateMonthly({ region, size, brokers, zones, aws, paused, retained });
}

/** The plan of a cluster as if it were not there yet; on this machine, of what it lacks. */
async function planOf(
  core: Core,
  cluster: Cluster,
  purpose: PlanPurpose,
  signal: AbortSignal,
): Promise<ChangePlan> {
  const { local, awsPlanner } = core.drivers;
  if (!isAwsRegion(cluster.region)) {
    const { id } = cluster;
    const placement =
      cluster.placement ?? (await local.allocate(id, await core.db.clusters.placements()));
    return local.plan(deploymentAt(cluster, placement), { purpose, signal });
  }
  if (!awsPlanner) {
    throw new ProvisionError("unconfigured", `nothing here plans for ${cluster.region}`);
  }
  const deployment = deploymentAt(cluster, cluster.placement ?? UNKNOWN_PLACEMENT);
  return awsPlanner.plan(deployment, { purpose, offline: true, signal });
}

/** On AWS nobody knows the address before it is there. */
const UNKNOWN_PLACEMENT: Placement = { host: "", kafkaPort: 0, adminPort: 0 };

/**
 * What becomes of a cluster that is there. This machine is looked at; on AWS the stack as it is asked
 * for now is held against the one that would be, since what runs belongs to the worker's operations.
 */
async function changeOf(
  core: Core,
  now: Cluster,
  wanted: Cluster,
  purpose: PlanPurpose,
  signal: AbortSignal,
): Promise<ChangePlan> {
  if (!isAwsRegion(now.region)) return planOf(core, wanted, purpose, signal);
  const before = await planOf(core, now, purposeNow(now), signal);
  if (purpose === "purge") return planRemoval(before);
  return planDifference(before, await planOf(core, wanted, purpose, signal));
}

/** What made the cluster as it is. */
function purposeNow({ phase, paused }: Cluster): PlanPurpose {
  if (phase === "PENDING_PURGE") return "destroy";
  return paused ? "pause" : "apply";
}

function warningsOf({ aws, size, brokers }: Cluster): string[] {
  if (aws === undefined) return [];
  const account =
    "Planned from the spec alone: quotas, permissions and changes by hand were not looked at. The " +
    "operation plans again, against what exists, before it applies anything.";
  const many = "Only one broker can be created as yet: brokers do not share metadata.";
  return [
    account,
    ...(brokers > 1 ? [many] : []),
    ...walVolumeWarnings(aws.wal, awsSizing(size).instance),
  ];
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
    return ["The broker is stopped or started anew: clients are not served meanwhile."];
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

function cents(usd: number): number {
  return Math.round(usd * 100) / 100;
}

function protection({ deletionProtection }: Cluster): string[] {
  return deletionProtection
    ? ["The cluster is protected: a deletion is refused until deletion_protection is off."]
    : [];
}
