import type { Repositories } from "@millrace/db";
import {
  assertServing,
  type Cluster,
  type ClusterId,
  DomainError,
  endpointsOf,
  isId,
  notFound,
  type Principal,
} from "@millrace/domain";
import type { Core } from "../core.ts";

/** The tenant's cluster, or `not_found` as for an id that does not exist. */
export async function requireCluster(
  core: { readonly db: Pick<Repositories, "clusters"> },
  principal: Principal,
  id: ClusterId,
): Promise<Cluster> {
  const cluster = isId("clu", id)
    ? await core.db.clusters.get(principal.organizationId, id)
    : undefined;
  if (!cluster) throw notFound("cluster", id);
  return cluster;
}

/** The tenant's cluster, if its broker is to answer. Throws `not_found`, `cluster_not_ready`. */
export async function requireServingCluster(
  core: Pick<Core, "db">,
  principal: Principal,
  id: ClusterId,
): Promise<Cluster> {
  const cluster = await requireCluster(core, principal, id);
  assertServing(cluster);
  if (endpointsOf(cluster).length === 0) {
    throw new DomainError("cluster_not_ready", `Cluster ${cluster.name} has no endpoint yet.`);
  }
  return cluster;
}
