import type { TenantDatabase } from "@millrace/db";
import {
  type Cluster,
  type ClusterId,
  type ClusterSize,
  clusterNameTaken,
  DomainError,
  type Environment,
  type EnvironmentId,
  freeVpcRange,
  isAwsRegion,
  type Operation,
  type Principal,
  type Region,
  validationFailed,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { readyCondition } from "../engine/index.ts";
import { requireEnvironment } from "../environment/require-environment.ts";
import { type ResolvedSpec, resolveSpec, type SpecRequest } from "./resolve-spec.ts";

/** Clusters of one tenant: brokers of a tenant share machines with others' brokers. */
export const CLUSTERS_PER_ORGANIZATION_MAX = 100;

export interface CreateClusterInput extends Omit<SpecRequest, "region"> {
  readonly name: string;
  /** This machine where it is absent; required where that runs no clusters. */
  readonly region?: Region | undefined;
  readonly size: ClusterSize;
  readonly environmentId?: EnvironmentId | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly deletionProtection?: boolean | undefined;
  /** The operation waits for somebody to approve its plan. */
  readonly requireApproval?: boolean | undefined;
}

/** A request that can be accepted, as far as can be told before it is. */
export interface ValidatedCreate {
  readonly region: Region;
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
  const validated = await validateCreate(core, principal, input);
  refuseUnavailable(core, validated.region);
  try {
    return await accept(core, principal, input, validated);
  } catch (error) {
    throw await withExistingId(core, error, validated.environment.id, input.name);
  }
}

/** Everything but whether it can be made right now. Throws as `createCluster` does. */
export async function validateCreate(
  core: Core,
  principal: Principal,
  input: CreateClusterInput,
): Promise<ValidatedCreate> {
  const environment = await environmentOf(core, principal, input.environmentId);
  const region = regionOf(core, input.region);
  const spec = resolveSpec({ ...input, region });
  if ((await core.db.clusters.count(principal.organizationId)) >= CLUSTERS_PER_ORGANIZATION_MAX) {
    throw new DomainError(
      "limit_exceeded",
      `An organization has at most ${CLUSTERS_PER_ORGANIZATION_MAX} clusters.`,
      { remedy: "Delete a cluster that is no longer needed." },
    );
  }
  return { region, environment, spec };
}

async function accept(
  core: Core,
  principal: Principal,
  input: CreateClusterInput,
  { region, environment, spec: wanted }: ValidatedCreate,
): Promise<{ cluster: Cluster; operation: Operation }> {
  const { organizationId } = principal;
  return core.db.transaction(async (tx) => {
    // Two clusters that are made at the same time must not get the same range.
    if (wanted.aws) await tx.organizations.lock(organizationId);
    const spec = await withFreeRange(tx, principal, input, wanted);
    // Deleted since it was read, it is gone now; from here on it stays.
    const held = await tx.organizations.holdEnvironment(organizationId, environment.id);
    if (!held) await requireEnvironment(core, principal, environment.id);
    const cluster = await tx.clusters.create({
      organizationId,
      environmentId: environment.id,
      name: input.name,
      region,
      size: input.size,
      labels: input.labels ?? {},
      deletionProtection: input.deletionProtection ?? false,
      plaintextListener: input.plaintextListener ?? true,
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
      createdBy: tx.actor,
    });
    await tx.deliver(operation.id);
    return { cluster, operation };
  });
}

/**
 * The spec with a range of addresses that none of the tenant's clusters has, where none was asked for. Throws
 * `limit_exceeded`.
 */
export async function withFreeRange(
  { clusters }: Pick<TenantDatabase, "clusters">,
  { organizationId }: Principal,
  { network }: CreateClusterInput,
  spec: ResolvedSpec,
): Promise<ResolvedSpec> {
  if (spec.aws === undefined || spec.aws.network.vpcId || network?.cidr) return spec;
  const cidr = freeVpcRange(await clusters.vpcRanges(organizationId));
  if (cidr !== undefined) {
    return { ...spec, aws: { ...spec.aws, network: { ...spec.aws.network, cidr } } };
  }
  throw new DomainError("limit_exceeded", "The networks of other clusters use every range.", {
    remedy: "Choose a range of addresses that is free.",
    fields: [{ pointer: "/network/cidr", code: "required", message: "must be set" }],
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
  /** What to do, where that depends on the other cluster. */
  remedyFor?: (existing: ClusterId) => string,
): Promise<unknown> {
  if (!(error instanceof DomainError) || error.code !== "cluster_name_taken") return error;
  const existing = await core.db.clusters.findByName(environmentId, name);
  const { fields, message } = error;
  const remedy = existing && remedyFor ? remedyFor(existing.id) : error.remedy;
  return new DomainError("cluster_name_taken", message, {
    ...(remedy !== undefined && { remedy }),
    fields,
    cause: error,
    ...(existing && { existingId: existing.id }),
  });
}

/** Throws `validation_failed` where there is no default, `region_unavailable` for this machine where it is none. */
function regionOf({ drivers }: Core, region: Region | undefined): Region {
  if (drivers.localAvailable) return region ?? "local";
  if (region === undefined) {
    const message = "is required: this installation creates clusters on AWS only";
    throw validationFailed([{ pointer: "/region", code: "required", message }]);
  }
  if (isAwsRegion(region)) return region;
  throw new DomainError("region_unavailable", "This installation creates clusters on AWS only.", {
    remedy: "Choose an AWS region: GET /v1/regions lists them.",
    fields: [{ pointer: "/region", code: "unavailable", message: "is not available here" }],
  });
}

/** Throws `region_unavailable` where this installation cannot make clusters. */
function refuseUnavailable({ drivers: { awsRegion } }: Core, region: Region): void {
  if (!isAwsRegion(region) || region === awsRegion) return;
  if (awsRegion !== undefined) {
    const message = `This installation creates clusters on AWS in ${awsRegion} only.`;
    throw new DomainError("region_unavailable", message, {
      remedy: `Choose ${awsRegion}. validate_only plans the cluster in any region.`,
      fields: [{ pointer: "/region", code: "unavailable", message: `must be ${awsRegion}` }],
    });
  }
  throw new DomainError("region_unavailable", `No AWS account is configured for ${region}.`, {
    remedy:
      "Set MILLRACE_AWS_ROLE_ARN for the API and the worker and MILLRACE_AWS_REGION for the API, or choose the " +
      "region local. validate_only plans the cluster without an account.",
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
