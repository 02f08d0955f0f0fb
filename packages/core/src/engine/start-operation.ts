import type { Transaction } from "@millrace/db";
import {
  type Clock,
  type Cluster,
  type ClusterPhase,
  clusterNotReady,
  DomainError,
  isDeletion,
  type Operation,
  type OperationKind,
  type OperationOrigin,
  type OperationParameters,
  purgeAt,
  type SpecPart,
} from "@millrace/domain";
import { readyCondition } from "./cluster-condition.ts";
import { specChange } from "./spec-change.ts";

interface StartedState {
  readonly phase: ClusterPhase;
  /** Of the condition. */
  readonly reason: string;
  readonly message: string;
  /** Clients are served meanwhile. */
  readonly serves?: true;
  /** What the operation changes in the spec. */
  readonly spec?: SpecPart;
}

/** The cluster's state from the moment an operation is accepted; observations leave it as it is. */
const STARTED_STATES: Record<OperationKind, StartedState | undefined> = {
  "cluster.create": {
    phase: "PROVISIONING",
    reason: "Provisioning",
    message: "The cluster is being created.",
  },
  "cluster.update": {
    phase: "UPDATING",
    reason: "Updating",
    message: "The cluster is being changed.",
    serves: true,
  },
  "cluster.pause": {
    phase: "UPDATING",
    reason: "Pausing",
    message: "The cluster is being paused.",
    spec: { paused: true },
  },
  "cluster.resume": {
    phase: "UPDATING",
    reason: "Resuming",
    message: "The cluster is being resumed.",
    spec: { paused: false },
  },
  "cluster.restart": {
    phase: "UPDATING",
    reason: "Restarting",
    message: "Brokers are being restarted, one at a time.",
    serves: true,
  },
  "cluster.delete": {
    phase: "DELETING",
    reason: "Deleting",
    message: "The cluster is being deleted.",
  },
  "cluster.restore": {
    phase: "UPDATING",
    reason: "Restoring",
    message: "The cluster is being restored with its data.",
  },
  "cluster.purge": {
    phase: "DELETING",
    reason: "Purging",
    message: "The data of the deleted cluster is being removed.",
  },
  "cluster.reconcile": {
    phase: "UPDATING",
    reason: "Reconciling",
    message: "Changes made outside Millrace are being reverted.",
    serves: true,
  },
  "cluster.check_drift": undefined,
  "cluster.recover": {
    phase: "UPDATING",
    reason: "Recovering",
    message: "The broker is down until its recovery is approved and done.",
  },
  "cluster.benchmark": undefined,
};

/** What was asked for of an operation beside its kind. */
type Request = Pick<
  OperationParameters,
  "requireApproval" | "retainDays" | "spec" | "brokerId" | "benchmark"
>;

/**
 * Accepts an operation on a cluster whose row the caller has locked, makes of the cluster's spec what
 * was asked for, and has the operation delivered when the transaction commits. Throws
 * `cluster_busy`, `cluster_not_ready`, `cluster_name_taken`.
 */
export async function startOperation(
  tx: Transaction,
  clock: Clock,
  cluster: Cluster,
  kind: OperationKind,
  request: Request = {},
): Promise<Operation> {
  const { organizationId, id: clusterId } = cluster;
  const spec = { ...STARTED_STATES[kind]?.spec, ...request.spec };
  const parameters = { ...request, spec, origin: originOf(cluster, spec) };
  const operation = await tx.operations.create({
    ...{ organizationId, clusterId, kind, parameters },
    createdBy: tx.actor,
  });
  await enterPhase(tx, clock, cluster, { kind, parameters });
  await tx.deliver(operation.id);
  return operation;
}

function originOf(cluster: Cluster, changes: SpecPart): OperationOrigin {
  const { phase, revision, purgeAt } = cluster;
  const fields = Object.keys(changes) as (keyof SpecPart)[];
  const spec: SpecPart = Object.fromEntries(fields.map((field) => [field, cluster[field]]));
  return { phase, revision, purgeAt: purgeAt?.toISOString(), spec };
}

/**
 * Moves the cluster to the phase of an operation that starts or is retried. Throws `cluster_not_ready`,
 * `cluster_name_taken`.
 */
export async function enterPhase(
  tx: Transaction,
  clock: Clock,
  cluster: Cluster,
  { kind, parameters }: Pick<Operation, "kind" | "parameters">,
): Promise<void> {
  const started = STARTED_STATES[kind];
  if (!started || cluster.phase === started.phase) return;
  if (cluster.dataDestroyedAt !== undefined && !isDeletion(kind)) throw partlyDestroyed(cluster);
  const { phase: to, reason, message, serves } = started;
  const entered = await tx.clusters.changePhase(cluster.id, {
    to,
    conditions: readyCondition(clock, serves ? "True" : "False", reason, message),
  });
  if (!entered) {
    throw clusterNotReady(cluster, {
      remedy: "Wait until the running operation is done.",
      retryAfterSeconds: 5,
    });
  }
  const { spec = {}, origin } = parameters;
  // An operation that goes on finds its change made, but for what of it was taken back.
  const change = origin === undefined ? spec : specChange(cluster, origin.spec, spec);
  const needsOperation = Object.keys(change).length > 0;
  const purge = purgeOf(clock, kind, parameters);
  if (!needsOperation && (purge ?? undefined) === cluster.purgeAt) return;
  await tx.clusters.changeSpec(cluster.id, { ...change, purgeAt: purge, needsOperation });
}

function partlyDestroyed({ name }: Cluster): DomainError {
  const message = `The data of cluster ${name} is being destroyed, or was in part.`;
  return new DomainError("cluster_not_ready", message, {
    retryable: false,
    remedy: "It can only be deleted: retry the deletion or request it again.",
  });
}

/** When the data of the cluster is to be purged; null: never, or with the cluster. Undefined: unchanged. */
function purgeOf(
  clock: Clock,
  kind: OperationKind,
  { retainDays }: OperationParameters,
): Date | null | undefined {
  if (kind === "cluster.purge") return undefined;
  if (kind !== "cluster.delete") return null;
  return retainDays === undefined ? undefined : (purgeAt(clock.now(), retainDays) ?? null);
}
