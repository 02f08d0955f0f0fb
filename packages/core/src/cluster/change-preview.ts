import {
  awsSizing,
  brokersAloneInZone,
  type Cluster,
  type CostEstimate,
  isAwsRegion,
  type Placement,
  walVolumeWarnings,
} from "@millrace/domain";
import { type ChangePlan, type PlanPurpose, ProvisionError } from "@millrace/provisioner";
import type { Core } from "../core.ts";
import { deploymentAt } from "../engine/index.ts";
import { planDifference, planRemoval } from "../planning/plan-difference.ts";
import type { SpecFieldChange } from "./spec-changes.ts";

/** What a change would do. Nothing has been done. */
export interface ChangePreview {
  readonly plan: ChangePlan;
  /** What an update sets in the cluster's spec; empty for a creation and a deletion. */
  readonly specChanges: readonly SpecFieldChange[];
  readonly cost: CostEstimate;
  /** USD per month, compared with the current cost. */
  readonly costDelta: number;
  readonly warnings: readonly string[];
}

/** The plan of a cluster as if it were not there yet; on this machine, of what it lacks. */
export async function planOf(
  core: Core,
  cluster: Cluster,
  purpose: PlanPurpose,
  signal: AbortSignal,
): Promise<ChangePlan> {
  const { local, awsPlanner } = core.drivers;
  if (!isAwsRegion(cluster.region)) {
    const { id, brokers } = cluster;
    const placement =
      cluster.placement ?? (await local.allocate(id, await core.db.clusters.placements(), brokers));
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
 * How a change affects a cluster that exists. A local cluster is inspected. On AWS the preview compares
 * the stack of the current spec with the stack of the wanted one: only the worker's operations may read
 * what is deployed.
 */
export async function changeOf(
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

export function warningsOf({ aws, size, brokers, zones }: Cluster): string[] {
  if (aws === undefined) return [];
  const account =
    "Quotas, permissions and manual changes were not checked. The operation plans again, " +
    "against what exists, before it applies anything.";
  return [
    account,
    ...zoneWarnings(brokers, zones),
    ...walVolumeWarnings(aws.wal, awsSizing(size).instance),
  ];
}

/** Where a failover has to wait for AWS. */
function zoneWarnings(brokers: number, zones: number): string[] {
  const alone = brokers === 1 ? [] : brokersAloneInZone(brokers, zones);
  if (alone.length === 0) return [];
  return [
    `No other broker is in the zone of ${alone.length === 1 ? "broker" : "brokers"} ${alone.join(", ")}. Volumes can be ` +
      "attached in their own zone only, so if such a broker fails, the partitions that it leads wait until its " +
      `instance is replaced. With ${2 * zones} brokers, each zone has two, which take over from each other.`,
  ];
}

/** A whole number of cents, in USD. */
export function cents(usd: number): number {
  return Math.round(usd * 100) / 100;
}
