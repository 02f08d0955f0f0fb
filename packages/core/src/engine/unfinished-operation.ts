import type { Transaction } from "@millrace/db";
import {
  type Clock,
  type Cluster,
  type ClusterPhase,
  isDeletion,
  isObservation,
  type Operation,
  type OperationKind,
  type OperationOrigin,
  type StepName,
} from "@millrace/domain";
import { pausedCondition, readyCondition } from "./cluster-condition.ts";
import { specChange } from "./spec-change.ts";

/** Steps that change what runs. An operation that ends before the first of them changed nothing. */
const CHANGING: readonly StepName[] = [
  "apply",
  "recover",
  "restart_broker",
  "restart_one_by_one",
  "prepare_broker",
  "start_broker",
  "stop_broker",
  "delete_data",
];
/** After a failed restore the data is kept for at least this long, so that it can be retried. */
const PURGE_DELAY_MS = 24 * 60 * 60_000;

/** Kinds after which the broker may serve, whatever step they ended at. */
const LEAVES_BROKER: readonly OperationKind[] = [
  "cluster.update",
  "cluster.restart",
  "cluster.reconcile",
  "cluster.recover",
];

/** Why an operation ended before it was through, as the cluster's condition says it. */
export interface UnfinishedReason {
  /** CamelCase, stable, for programs. */
  readonly reason: "Cancelled" | "NotApproved" | "OperationFailed";
  readonly message: string;
}

function hasBegun({ steps }: Operation): boolean {
  return steps.some(
    ({ name, attempt }) => attempt > 0 && (CHANGING as readonly string[]).includes(name),
  );
}

/**
 * How the cluster still is where an operation is to change it and has not begun to, because its plan waits for
 * approval, for example. The cluster's row has the change already.
 */
export function originBeforeChange(operation: Operation | undefined): OperationOrigin | undefined {
  const pending = operation !== undefined && !isObservation(operation.kind) && !hasBegun(operation);
  return pending ? operation.parameters.origin : undefined;
}

/** Sets the phase and spec of a cluster whose operation failed or was cancelled. */
export async function recordUnfinished(
  tx: Transaction,
  clock: Clock,
  cluster: Cluster,
  operation: Operation,
  { reason, message }: UnfinishedReason,
): Promise<void> {
  if (isObservation(operation.kind)) return;
  const begun = hasBegun(operation);
  const to = begun ? phaseAfterChange(operation, cluster) : phaseBefore(operation, cluster);
  const serves = to === "RUNNING" ? "True" : "False";
  // A cluster that stays paused says so: that an operation was cancelled matters less.
  const isPaused = to === "PAUSED" && reason !== "OperationFailed";
  const conditions = isPaused
    ? pausedCondition(clock)
    : readyCondition(clock, serves, reason, message);
  await tx.clusters.changePhase(cluster.id, { to, conditions });
  if (!begun) await revertSpec(tx, clock, cluster, operation);
}

/** Kinds that leave the cluster as it was if no step changed anything. */
function isRevertible({ kind }: Operation): boolean {
  return kind !== "cluster.create" && !isDeletion(kind);
}

function phaseBefore(operation: Operation, cluster: Cluster): ClusterPhase {
  const { origin } = operation.parameters;
  if (!isRevertible(operation) || origin === undefined) return phaseAfterChange(operation, cluster);
  // What it says was seen before; that it never served is known.
  return origin.phase === "RUNNING" && cluster.observedRevision === 0 ? "FAILED" : origin.phase;
}

function phaseAfterChange({ kind, parameters }: Operation, cluster: Cluster): ClusterPhase {
  if (!LEAVES_BROKER.includes(kind)) return "FAILED";
  if (cluster.paused) return "PAUSED";
  // It may well serve: the supervisor looks, and says so.
  const served = cluster.observedRevision > 0 && parameters.origin?.phase !== "FAILED";
  return served ? "DEGRADED" : "FAILED";
}

/** Reverts the requested change: the next operation must not apply it. */
async function revertSpec(
  tx: Transaction,
  clock: Clock,
  cluster: Cluster,
  operation: Operation,
): Promise<void> {
  const { origin } = operation.parameters;
  if (origin === undefined || !isRevertible(operation)) return;
  // What somebody has changed since stays as it is.
  const { name, ...spec } = specChange(cluster, operation.parameters.spec ?? {}, origin.spec);
  // The name may have been given away meanwhile: then the cluster keeps the new one.
  const holder = name ? await tx.clusters.findByName(cluster.environmentId, name) : undefined;
  const isFree = holder === undefined || holder.id === cluster.id;
  await tx.clusters.changeSpec(cluster.id, {
    ...spec,
    ...(isFree && { name, revision: origin.revision }),
    ...(origin.purgeAt !== undefined && { purgeAt: later(clock, new Date(origin.purgeAt)) }),
    needsOperation: false,
  });
}

function later(clock: Clock, purgeAt: Date): Date {
  return new Date(Math.max(purgeAt.getTime(), clock.now().getTime() + PURGE_DELAY_MS));
}
