import {
  type Cluster,
  type ClusterSize,
  DomainError,
  type Environment,
  type EnvironmentId,
  notFound,
  type Operation,
  type Principal,
  type Region,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { readyCondition } from "./cluster-condition.ts";

/** Clusters of one tenant: brokers of a tenant share machines with others' brokers. */
export const CLUSTERS_PER_ORGANIZATION_MAX = 100;

export interface CreateClusterInput {
  readonly name: string;
  readonly region: Region;
  readonly size: ClusterSize;
  readonly environmentId?: EnvironmentId | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

/**
 * Accepts a cluster and the operation that provisions it: both rows and the delivery to a worker
 * are one transaction. Throws `not_found` (environment), `cluster_name_taken`, `limit_exceeded`.
 */
export async function createCluster(
  core: Core,
  principal: Principal,
  input: CreateClusterInput,
): Promise<{ cluster: Cluster; operation: Operation }> {
  const { organizationId } = principal;
  const environment = await environmentOf(core, principal, input.environmentId);
  if ((await core.db.clusters.count(organizationId)) >= CLUSTERS_PER_ORGANIZATION_MAX) {
    throw new DomainError(
      "limit_exceeded",
      `An organization has at most ${CLUSTERS_PER_ORGANIZATION_MAX} clusters.`,
      { remedy: "Delete a cluster that is no longer needed." },
    );
  }
  return core.db.transaction(async (tx) => {
    const cluster = await tx.clusters.create({
      organizationId,
      environmentId: environment.id,
      name: input.name,
      region: input.region,
      size: input.size,
      labels: input.labels ?? {},
      conditions: readyCondition(core.clock, "False", "Provisioning", "The cluster is being made."),
    });
    const operation = await tx.operations.create({
      organizationId,
      clusterId: cluster.id,
      kind: "cluster.create",
    });
    await tx.deliver(operation.id);
    return { cluster, operation };
  });
}

async function environmentOf(
  core: Core,
  principal: Principal,
  id: EnvironmentId | undefined,
): Promise<Environment> {
  const { organizations } = core.db;
  if (id !== undefined) {
    const environment = await organizations.getEnvironment(principal.organizationId, id);
    if (!environment) throw notFound("environment", id);
    return environment;
  }
  const page = await organizations.environments(principal.organizationId, { limit: 1 });
  const [first] = page.items;
  if (!first) {
    throw new DomainError("not_found", "The organization has no environment.", {
      remedy: "Create an environment first.",
    });
  }
  return first;
}
