import {
  awsSizing,
  type Cluster,
  type ClusterId,
  type CostEstimate,
  DomainError,
  estimateMonthly,
  type Placement,
  type Principal,
  providerOf,
  purgeAt,
  retainDaysDefault,
  UNTOUCHED_TUNING,
  walVolumeWarnings,
} from "@millrace/domain";
import type { ChangePlan, PlanPurpose } from "@millrace/provisioner";
import type { Core } from "../core.ts";
import { deploymentAt } from "./cluster-deployment.ts";
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

/** What creating the cluster would do. Throws as `createCluster` and `PlanSlots.run` do. */
export async function previewCreate(
  core: Core,
  principal: Principal,
  input: CreateClusterInput,
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
    drift: { status: "unknown", checkedAt: undefined, digest: undefined, operationId: undefined },
    createdAt: now,
    updatedAt: now,
    deletedAt: undefined,
  };
  return preview(core, wanted, "apply", estimateOf(wanted), 0);
}

/** What changing the cluster would do. Throws as `updateCluster` and `PlanSlots.run` do. */
export async function previewUpdate(
  core: Core,
  principal: Principal,
  input: UpdateClusterInput,
): Promise<ChangePreview> {
  const cluster = await requireCluster(core, principal, input.clusterId);
  const { wanted } = judgeUpdate(cluster, input);
  const purpose = wanted.paused ? "pause" : "apply";
  return preview(core, wanted, purpose, estimateOf(wanted), estimateOf(cluster).total);
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
): Promise<ChangePreview> {
  const cluster = await requireCluster(core, principal, input.clusterId);
  const days = input.retainDays ?? retainDaysDefault(providerOf(cluster.region));
  const until = purgeAt(core.clock.now(), days);
  const now = estimateOf(cluster).total;
  if (until === undefined) {
    const nothing = { ...estimateOf(cluster), total: 0, lines: [] };
    const made = await preview(core, cluster, "purge", nothing, now);
    return { ...made, warnings: [...protection(cluster), "All records are lost."] };
  }
  const left = estimateOf({ ...cluster, phase: "PENDING_PURGE" });
  const made = await preview(core, cluster, "destroy", left, now);
  const kept = `The data is kept until ${until.toISOString()}, and costs what is shown until then.`;
  return { ...made, warnings: [...protection(cluster), kept] };
}

/** What the cluster costs in a month, as far as can be told. */
export function estimateOf(cluster: Cluster): CostEstimate {
  const { region, size, brokers, zones, aws, paused } = cluster;
  const retained = cluster.phase === "PENDING_PURGE";
  return estimateMonthly({ region, size, brokers, zones, aws, paused, retained });
}

async function preview(
  core: Core,
  cluster: Cluster,
  purpose: PlanPurpose,
  cost: CostEstimate,
  costNow: number,
): Promise<ChangePreview> {
  const placement = cluster.placement ?? (await placementOf(core, cluster));
  const deployment = deploymentAt(cluster, placement);
  const offline = core.drivers.find(cluster.region) === undefined;
  const plan = await core.planSlots.run((signal) =>
    core.drivers.planner(cluster.region).plan(deployment, { purpose, offline, signal }),
  );
  const costDelta = Math.round((cost.total - costNow) * 100) / 100;
  return { plan, cost, costDelta, warnings: warningsOf(cluster, offline) };
}

/** Where the cluster would stand; on AWS nobody knows before it is made. */
async function placementOf(core: Core, cluster: Cluster): Promise<Placement> {
  if (providerOf(cluster.region) === "aws") return { host: "", kafkaPort: 0, adminPort: 0 };
  const driver = core.drivers.find(cluster.region);
  const taken = await core.db.clusters.placements();
  return (await driver?.allocate(cluster.id, taken)) ?? { host: "", kafkaPort: 0, adminPort: 0 };
}

function warningsOf(cluster: Cluster, offline: boolean): string[] {
  const { aws, size, brokers } = cluster;
  if (aws === undefined) return [];
  const account =
    "Planned without an AWS account: everything is shown as it would be made anew, and neither " +
    "quotas nor permissions were looked at.";
  const many = "Only one broker can be created as yet: brokers do not share metadata.";
  return [
    ...(offline ? [account] : []),
    ...(brokers > 1 ? [many] : []),
    ...walVolumeWarnings(aws.wal, awsSizing(size).instance),
  ];
}

function protection({ deletionProtection }: Cluster): string[] {
  return deletionProtection
    ? ["The cluster is protected: a deletion is refused until deletion_protection is off."]
    : [];
}
