import {
  type ClientQuota,
  type ClusterId,
  type Principal,
  QUOTA_LIMITS,
  type QuotaChanges,
  type QuotaEntity,
  quotaKey,
  validationFailed,
} from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { assertEntity } from "./quota-entity.ts";

export interface SetQuotaInput {
  readonly clusterId: ClusterId;
  readonly entity: QuotaEntity;
  readonly changes: QuotaChanges;
}

/**
 * Sets limits of one entity, effective at once. Absent ones stay, null removes one. Throws
 * `validation_failed` without an entity or a limit, `not_found`, `cluster_not_ready`, `broker_unavailable`.
 */
export async function setQuota(
  core: Core,
  principal: Principal,
  { clusterId, entity, changes }: SetQuotaInput,
): Promise<ClientQuota> {
  const cluster = await requireServingCluster(core, principal, clusterId);
  assertEntity(entity);
  if (QUOTA_LIMITS.every((limit) => changes[limit] === undefined)) {
    const message = `must have at least one of ${QUOTA_LIMITS.join(", ")}`;
    throw validationFailed([{ pointer: "", code: "required", message }]);
  }
  return atBroker(undefined, async () => {
    const broker = await core.brokerHttp(cluster);
    // Read before the change: once it is made, nothing may fail.
    const quotas = await broker.listQuotas();
    const known = quotas.find((quota) => quotaKey(quota) === quotaKey(entity));
    await core.beforeBrokerChange?.();
    await broker.alterQuota(entity, changes);
    return { ...entity, limits: changedLimits(known?.limits ?? {}, changes) };
  });
}

function changedLimits(known: ClientQuota["limits"], changes: QuotaChanges): ClientQuota["limits"] {
  return Object.fromEntries(
    QUOTA_LIMITS.flatMap((limit) => {
      const value = changes[limit] === undefined ? known[limit] : changes[limit];
      return value == null ? [] : [[limit, value]];
    }),
  );
}
