import { authorize } from "@millrace/auth";
import {
  DomainError,
  isDeletion,
  isObservation,
  notFound,
  type Operation,
  type OperationId,
  type Principal,
  retryPermission,
} from "@millrace/domain";
import { protectedFromDeletion } from "../cluster/delete-cluster.ts";
import { checkFit } from "../cluster/update-cluster.ts";
import type { Core } from "../core.ts";
import { enterPhase } from "../engine/index.ts";
import { cancelDriftCheck } from "./cancel-drift-check.ts";
import { requireOperation } from "./require-operation.ts";

/**
 * Lets an operation that failed or was cancelled go on from the step that is not done. Only the
 * cluster's last one: what came after has made of the cluster what an older one does not know.
 * Throws `not_found`, `forbidden` where the caller may not start such an operation, `operation_not_retryable`, `cluster_busy`, `cluster_not_ready`,
 * `deletion_protected`, `tuning_refused`, and `cluster_name_taken` where it gives the cluster a name that is taken now.
 */
export async function retryOperation(
  core: Core,
  principal: Principal,
  id: OperationId,
): Promise<Operation> {
  const operation = await requireOperation(core, principal, id);
  authorize(principal, retryPermission(operation.kind));
  const { organizationId } = principal;
  const { clusterId } = operation;
  if (isObservation(operation.kind)) throw startAnother(operation);
  await cancelDriftCheck(core, principal, clusterId);
  await core.db.transaction(async (tx) => {
    const cluster = await tx.clusters.lock(organizationId, clusterId);
    if (!cluster) throw notFound("cluster", clusterId);
    const latest = (await tx.operations.latestOf([clusterId])).get(clusterId);
    if (latest !== id) throw superseded(id, latest);
    if (isDeletion(operation.kind) && cluster.deletionProtection) {
      throw protectedFromDeletion(cluster);
    }
    // Tuned meanwhile, it may not fit the size any more that the operation brings back.
    const { spec } = operation.parameters;
    if (spec?.size) checkFit({ ...cluster, ...spec });
    if (!(await tx.operations.reopen(id))) throw notFailed(operation);
    await enterPhase(tx, core.clock, cluster, operation);
    await tx.deliver(id);
  });
  return requireOperation(core, principal, id);
}

function startAnother({ id, kind }: Operation): DomainError {
  const what = kind === "cluster.benchmark" ? "benchmark" : "drift check";
  return new DomainError("operation_not_retryable", `Operation ${id} is a ${what}.`, {
    remedy: `Start a new ${what}.`,
  });
}

function superseded(id: OperationId, latest: OperationId | undefined): DomainError {
  return new DomainError(
    "operation_not_retryable",
    `Operation ${id} is not the cluster's last operation.`,
    {
      remedy: `See operation ${latest}, or start a new one.`,
    },
  );
}

function notFailed({ id, phase }: Operation): DomainError {
  return new DomainError("operation_not_retryable", `Operation ${id} is ${phase}.`, {
    remedy: "Only failed and cancelled operations can be retried.",
  });
}
