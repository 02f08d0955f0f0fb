import type { Transaction } from "@millrace/db";
import {
  type Clock,
  type Cluster,
  type ClusterPhase,
  isDeletion,
  type Operation,
  type StepName,
} from "@millrace/domain";
import { readyCondition } from "./cluster-condition.ts";
import { moveSpec } from "./move-spec.ts";

/** Steps that change what exists. Before the first of them nothing has to be looked after. */
const CHANGING: readonly StepName[] = [
  "apply",
  "restart_broker",
  "prepare_broker",
  "start_broker",
  "stop_broker",
  "delete_data",
];
/** Whoever wanted a cluster back has at least so long to ask again before its data is purged. */
const SECOND_THOUGHT_MS = 24 * 60 * 60_000;

function hasBegun({ steps }: Operation): boolean {
  return steps.some(
    ({ name, attempt }) => attempt > 0 && (CHANGING as readonly string[]).includes(name),
  );
}

/** Where an operation that did not come to its end leaves its cluster. */
export async function leave(
  tx: Transaction,
  clock: Clock,
  cluster: Cluster,
  operation: Operation,
  { reason, message }: { reason: string; message: string },
): Promise<void> {
  if (operation.kind === "cluster.check_drift") return;
  const begun = hasBegun(operation);
  const to = begun ? whereLeft(operation, cluster) : whereBefore(operation, cluster);
  const serves = to === "RUNNING" ? "True" : "False";
  const conditions = readyCondition(clock, serves, reason, message);
  await tx.clusters.changePhase(cluster.id, { to, conditions });
  if (!begun) await takeBack(tx, clock, cluster, operation);
}

/** Kinds after which a cluster on which nothing was done is what it was. */
function isUndone({ kind }: Operation): boolean {
  return kind !== "cluster.create" && !isDeletion(kind);
}

function whereBefore(operation: Operation, cluster: Cluster): ClusterPhase {
  const { origin } = operation.parameters;
  if (!isUndone(operation) || origin === undefined) return whereLeft(operation, cluster);
  // What it says was seen before; that it never served is known.
  return origin.phase === "RUNNING" && cluster.observedRevision === 0 ? "FAILED" : origin.phase;
}

function whereLeft({ kind, parameters }: Operation, cluster: Cluster): ClusterPhase {
  if (kind !== "cluster.update" && kind !== "cluster.reconcile") return "FAILED";
  if (cluster.paused) return "PAUSED";
  // It may well serve: the supervisor looks, and says so.
  const served = cluster.observedRevision > 0 && parameters.origin?.phase !== "FAILED";
  return served ? "DEGRADED" : "FAILED";
}

/** Nobody approved the change, or it could not be planned: the next operation must not carry it out. */
async function takeBack(
  tx: Transaction,
  clock: Clock,
  cluster: Cluster,
  operation: Operation,
): Promise<void> {
  const { origin } = operation.parameters;
  if (origin === undefined || !isUndone(operation)) return;
  // What somebody has changed since stays as it is.
  const { name, ...spec } = moveSpec(cluster, operation.parameters.spec ?? {}, origin.spec);
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
  return new Date(Math.max(purgeAt.getTime(), clock.now().getTime() + SECOND_THOUGHT_MS));
}
