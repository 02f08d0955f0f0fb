import type { Transaction } from "@millrace/db";
import {
  type Cluster,
  type ClusterId,
  type ClusterPhase,
  clusterNotReady,
  DomainError,
  isId,
  notFound,
  type Principal,
} from "@millrace/domain";
import { matchesCluster } from "./cluster-etag.ts";

/** A cluster that is meant to be acted on. */
export interface ClusterTarget {
  readonly clusterId: ClusterId;
  /** Acts only while the cluster's entity tag is this one. */
  readonly ifMatch?: string | undefined;
}

/** The tenant's cluster, locked until the transaction ends. Throws `not_found`, `precondition_failed`. */
export async function lockCluster(
  tx: Transaction,
  { organizationId }: Principal,
  { clusterId, ifMatch }: ClusterTarget,
): Promise<Cluster> {
  const cluster = isId("clu", clusterId)
    ? await tx.clusters.lock(organizationId, clusterId)
    : undefined;
  if (!cluster) throw notFound("cluster", clusterId);
  assertMatches(cluster, ifMatch);
  return cluster;
}

/** Throws `precondition_failed` where the cluster is not the one that was read. */
export function assertMatches(cluster: Cluster, ifMatch: string | undefined): void {
  if (matchesCluster(ifMatch, cluster)) return;
  throw new DomainError("precondition_failed", "The cluster has changed since it was read.", {
    remedy: "Read the cluster again, then repeat the request.",
  });
}

/** Throws `cluster_not_ready` unless the cluster is in one of the phases. */
export function assertPhase(
  cluster: Cluster,
  phases: readonly ClusterPhase[],
  remedy: string,
): void {
  if (phases.includes(cluster.phase)) return;
  throw clusterNotReady(cluster, { remedy });
}
