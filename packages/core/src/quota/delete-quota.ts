import {
  type ClusterId,
  DomainError,
  type Principal,
  type QuotaEntity,
  quotaKey,
} from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { assertEntity } from "./quota-entity.ts";

export interface DeleteQuotaInput {
  readonly clusterId: ClusterId;
  readonly entity: QuotaEntity;
}

/** Removes every limit of the entity. Throws `not_found`, `cluster_not_ready`, `broker_unavailable`. */
export async function deleteQuota(
  core: Core,
  principal: Principal,
  { clusterId, entity }: DeleteQuotaInput,
): Promise<void> {
  const cluster = await requireServingCluster(core, principal, clusterId);
  assertEntity(entity);
  await atBroker(undefined, async () => {
    const broker = await core.brokerHttp(cluster);
    const quotas = await broker.listQuotas();
    const quota = quotas.find((each) => quotaKey(each) === quotaKey(entity));
    if (quota === undefined) throw new DomainError("not_found", "There is no such quota.");
    await core.beforeBrokerChange?.();
    const removed = Object.keys(quota.limits).map((limit) => [limit, null]);
    await broker.alterQuota(entity, Object.fromEntries(removed));
  });
}
