import {
  BROKERS_PER_CLUSTER_MAX,
  type Cluster,
  type ClusterSize,
  clusterNameTaken,
  DomainError,
  type Environment,
  type EnvironmentId,
  isAwsRegion,
  type Operation,
  type Principal,
  type Region,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { readyCondition } from "../engine/index.ts";
import { requireEnvironment } from "../environment/require-environment.ts";
import { type ResolvedSpec, resolveSpec, type SpecRequest } from "./resolve-spec.ts";

/** Clusters of one tenant: brokers of a tenant share machines with others' brokers. */
export const CLUSTERS_PER_ORGANIZATION_MAX = 100;

export interface CreateClusterInput extends SpecRequest {
  readonly name: string;
  readonly region: Region;
  readonly size: ClusterSize;
  readonly environmentId?: EnvironmentId | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly deletionProtection?: boolean | undefined;
  readonly brokers?: number | undefined;
  /** The operation waits for somebody to approve its plan. */
  readonly requireApproval?: boolean | undefined;
}

/** A request that can be accepted, as far as can be told before it is. */
export interface ValidatedCreate {
  readonly environment: Environment;
  readonly spec: ResolvedSpec;
}

/**
 * Accepts a cluster and the operation that provisions it: both rows and the delivery to a worker
 * are one transaction. Throws `not_found` (environment), `validation_failed`, `limit_exceeded`,
 * `region_unavailable`, and `cluster_name_taken` with the id of the cluster that has the name.
 */
export async function createCluster(
  core: Core,
  principal: Principal,
  input: CreateClusterInput,
): Promise<{ cluster: Cluster; operation: Operation }> {
  const { environment, spec } = await validateCreate(core, principal, input);
  refuseManyBrokers(input.brokers ?? 1);
  refuseUnavailable(core, input.region);
  try {
    return await accept(core, principal, input, environment, spec);
  } catch (error) {
    throw await withExistingId(core, error, environment.id, input.name);
  }
}

/** Everything but whether it can be made right now. Throws as `createCluster` does. */
export async function validateCreate(
  core: Core,
  principal: Principal,
  input: CreateClusterInput,
): Promise<ValidatedCreate> {
  const environment = await environmentOf(core, principal, input.environmentId);
  const spec = resolveSpec(input);
  if (spec.aws === undefined) refuseManyBrokers(input.brokers ?? 1);
  if ((await core.db.clusters.count(principal.organizationId)) >= CLUSTERS_PER_ORGANIZATION_MAX) {
    throw new DomainError(
      "limit_exceeded",
      `An organization has at most ${CLUSTERS_PER_ORGANIZATION_MAX} clusters.`,
      { remedy: "Delete a cluster that is no longer needed." },
    );
  }
  return { environment, spec };
}

async function accept(
  core: Core,
  principal: Principal,
  input: CreateClusterInput,
  environment: Environment,
  spec: ResolvedSpec,
): Promise<{ cluster: Cluster; operation: Operation }> {
  const { organizationId } = principal;
  return core.db.transaction(async (tx) => {
    // Deleted since it was read, it is gone now; from here on it stays.
    const held = await tx.organizations.holdEnvironment(organizationId, environment.id);
    if (!held) await requireEnvironment(core, principal, environment.id);
    const cluster = await tx.clusters.create({
      organizationId,
      environmentId: environment.id,
      name: input.name,
      region: input.region,
      size: input.size,
      labels: input.labels ?? {},
      deletionProtection: input.deletionProtection ?? false,
      brokers: input.brokers ?? 1,
      zones: spec.zones,
      aws: spec.aws,
      conditions: readyCondition(
        core.clock,
        "False",
        "Provisioning",
        "The cluster is being created.",
      ),
    });
    const operation = await tx.operations.create({
      organizationId,
      clusterId: cluster.id,
      kind: "cluster.create",
      parameters: { requireApproval: input.requireApproval },
    });
    await tx.deliver(operation.id);
    return { cluster, operation };
  });
}

/** What only the database knows, asked by previews. Throws `cluster_name_taken`. */
export async function refuseTakenName(
  core: Core,
  environmentId: EnvironmentId,
  name: string,
): Promise<void> {
  if (!(await core.db.clusters.findByName(environmentId, name))) return;
  throw await withExistingId(core, clusterNameTaken(name), environmentId, name);
}

/** Adds the id of the cluster that has the name: a caller that lost the first answer can use it. */
export async function withExistingId(
  core: Core,
  error: unknown,
  environmentId: EnvironmentId,
  name: string,
): Promise<unknown> {
  if (!(error instanceof DomainError) || error.code !== "cluster_name_taken") return error;
  const existing = await core.db.clusters.findByName(environmentId, name);
  const { remedy, fields, message } = error;
  return new DomainError("cluster_name_taken", message, {
    ...(remedy !== undefined && { remedy }),
    fields,
    cause: error,
    ...(existing && { existingId: existing.id }),
  });
}

function refuseManyBrokers(brokers: number): void {
  if (brokers <= BROKERS_PER_CLUSTER_MAX) return;
  throw new DomainError(
    "limit_exceeded",
    `A cluster runs at most ${BROKERS_PER_CLUSTER_MAX} broker: brokers do not share metadata yet.`,
    {
      remedy: "Create one broker. In an AWS region, validate_only can plan more.",
      fields: [
        {
          pointer: "/brokers",
          code: "too_large",
          message: `must be at most ${BROKERS_PER_CLUSTER_MAX}`,
        },
      ],
    },
  );
}

/** Throws `region_unavailable` where this installation cannot make clusters. */
function refuseUnavailable(core: Core, region: Region): void {
  if (!isAwsRegion(region) || core.drivers.awsAvailable) return;
  throw new DomainError("region_unavailable", `No AWS account is configured for ${region}.`, {
    remedy:
      "Set MILLRACE_AWS_ROLE_ARN for the API and the worker, or choose the region local. " +
      "validate_only plans the cluster without an account.",
    fields: [{ pointer: "/region", code: "unavailable", message: "has no AWS account configured" }],
  });
}

async function environmentOf(
  core: Core,
  principal: Principal,
  id: EnvironmentId | undefined,
): Promise<Environment> {
  if (id !== undefined) return requireEnvironment(core, principal, id);
  const page = await core.db.organizations.environments(principal.organizationId, { limit: 1 });
  const [first] = page.items;
  if (!first) {
    throw new DomainError("not_found", "The organization has no environment.", {
      remedy: "Create an environment first.",
    });
  }
  return first;
}
