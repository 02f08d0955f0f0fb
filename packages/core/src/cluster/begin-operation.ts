import type { Transaction } from "@millrace/db";
import {
  type Clock,
  type Cluster,
  type ClusterPhase,
  DomainError,
  type Operation,
  type OperationKind,
  type OperationParameters,
  type StepName,
} from "@millrace/domain";
import { readyCondition } from "./cluster-condition.ts";

interface Beginning {
  readonly phase: ClusterPhase;
  /** Of the condition. */
  readonly reason: string;
  readonly message: string;
  /** Clients are served meanwhile. */
  readonly serves?: true;
  /** What is asked for from now on. */
  readonly spec?: { readonly paused?: boolean; readonly purgeAt?: null };
}

/** What an operation makes of its cluster as soon as it is accepted; a look makes nothing of it. */
const BEGINNINGS: Record<OperationKind, Beginning | undefined> = {
  "cluster.create": {
    phase: "PROVISIONING",
    reason: "Provisioning",
    message: "The cluster is being made.",
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
  "cluster.delete": {
    phase: "DELETING",
    reason: "Deleting",
    message: "The cluster is being deleted.",
  },
  "cluster.restore": {
    phase: "UPDATING",
    reason: "Restoring",
    message: "The cluster is brought back with its data.",
    spec: { purgeAt: null },
  },
  "cluster.purge": {
    phase: "DELETING",
    reason: "Purging",
    message: "The data of the deleted cluster is being removed.",
  },
  "cluster.reconcile": {
    phase: "UPDATING",
    reason: "Reconciling",
    message: "The cluster is made again what it was asked to be.",
    serves: true,
  },
  "cluster.check_drift": undefined,
};

/**
 * Accepts an operation on a cluster whose row the caller has locked, and has it delivered when the
 * transaction commits. Throws `cluster_busy`, `cluster_not_ready`.
 */
export async function beginOperation(
  tx: Transaction,
  clock: Clock,
  cluster: Cluster,
  kind: OperationKind,
  parameters: OperationParameters = {},
): Promise<Operation> {
  const { organizationId, id: clusterId } = cluster;
  const operation = await tx.operations.create({ organizationId, clusterId, kind, parameters });
  await enter(tx, clock, cluster, kind);
  await tx.deliver(operation.id);
  return operation;
}

/** Puts the cluster where the operation begins. Throws `cluster_not_ready`. */
export async function enter(
  tx: Transaction,
  clock: Clock,
  cluster: Cluster,
  kind: OperationKind,
): Promise<void> {
  const beginning = BEGINNINGS[kind];
  if (!beginning || cluster.phase === beginning.phase) return;
  const { phase: to, reason, message, spec, serves } = beginning;
  const entered = await tx.clusters.changePhase(cluster.id, {
    to,
    conditions: readyCondition(clock, serves ? "True" : "False", reason, message),
  });
  if (!entered) {
    throw new DomainError("cluster_not_ready", `Cluster ${cluster.name} is ${cluster.phase}.`, {
      remedy: "Wait until what is under way is done; its operation shows the progress.",
      retryAfterSeconds: 5,
    });
  }
  const needsOperation = spec?.paused !== undefined && spec.paused !== cluster.paused;
  if (spec) await tx.clusters.changeSpec(cluster.id, { ...spec, needsOperation });
}

/** Steps that change what exists. Before the first of them nothing has to be looked after. */
const CHANGING: readonly StepName[] = [
  "apply",
  "restart_broker",
  "prepare_broker",
  "start_broker",
  "stop_broker",
  "delete_data",
];

/** Where an operation that did not come to its end leaves its cluster. */
export async function leave(
  tx: Transaction,
  clock: Clock,
  cluster: Cluster,
  operation: Operation,
  { reason, message }: { reason: string; message: string },
): Promise<void> {
  const left = whereLeft(operation, cluster);
  if (!left) return;
  const conditions = readyCondition(
    clock,
    left.to === "RUNNING" ? "True" : "False",
    reason,
    message,
  );
  await tx.clusters.changePhase(cluster.id, { to: left.to, conditions });
  if (left.paused === undefined || left.paused === cluster.paused) return;
  await tx.clusters.changeSpec(cluster.id, { paused: left.paused, needsOperation: true });
}

function whereLeft(
  { kind, steps }: Operation,
  { paused }: Cluster,
): { to: ClusterPhase; paused?: boolean } | undefined {
  const begun = steps.some(
    ({ name, attempt }) => attempt > 0 && (CHANGING as readonly string[]).includes(name),
  );
  switch (kind) {
    case "cluster.check_drift":
      return undefined;
    case "cluster.update":
    case "cluster.reconcile":
      if (paused) return { to: "PAUSED" };
      // It may well serve: the supervisor looks, and says so.
      return { to: begun ? "DEGRADED" : "RUNNING" };
    case "cluster.pause":
      return begun ? { to: "FAILED" } : { to: "RUNNING", paused: false };
    case "cluster.resume":
      return begun ? { to: "FAILED" } : { to: "PAUSED", paused: true };
    default:
      return { to: "FAILED" };
  }
}
