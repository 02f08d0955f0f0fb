/**
 * Checks before Terraform runs: an invalid spec, and a change that would move or lose data. Terraform would find
 * most of these only during an apply.
 */
import {
  AWS_REGIONS,
  awsSizing,
  BROKERS_PER_CLUSTER_MAX,
  checkWalVolume,
  checkWalVolumeChange,
  type FieldError,
  regionFacts,
  ZONES_MAX,
  ZONES_OF_SEVERAL_MIN,
} from "@millrace/domain";
import { type ClusterStackSpec, hasSeveral, linkZonesOf, slotsOf } from "./spec.ts";

/** The spec is not valid. `fields` says what to fix. */
export class StackSpecError extends Error {
  override readonly name = "StackSpecError";
  readonly fields: readonly FieldError[];

  constructor(fields: readonly FieldError[]) {
    super(fields.map(({ pointer, message }) => `${pointer} ${message}`).join(" "));
    this.fields = fields;
  }
}

function refuse(pointer: string, code: string, message: string): FieldError {
  return { pointer, code, message };
}

/** Throws {@link StackSpecError} with everything that is wrong. */
export function checkClusterStackSpec(spec: ClusterStackSpec): void {
  const instance = awsSizing(spec.size).instance;
  const errors = [
    ...placeErrors(spec),
    ...networkErrors(spec),
    ...checkWalVolume(spec.wal, instance).map((error) => ({
      ...error,
      pointer: `/wal${error.pointer}`,
    })),
    ...keyErrors(spec),
    ...linkErrors(spec),
    ...authorityErrors(spec),
  ];
  if (errors.length > 0) throw new StackSpecError(errors);
}

function placeErrors({ accountId, region, zones, slots }: ClusterStackSpec): FieldError[] {
  const errors: FieldError[] = [];
  if (!/^\d{12}$/.test(accountId)) {
    errors.push(refuse("/account_id", "invalid", "is not the twelve digits of an AWS account."));
  }
  const known = AWS_REGIONS.find((candidate) => candidate === region);
  if (known === undefined) {
    const message = `is ${region}; clusters on AWS stand in ${AWS_REGIONS.join(", ")}.`;
    errors.push(refuse("/region", "unknown", message));
  } else if (zones.some((zone) => !regionFacts(known).zones.includes(zone))) {
    const message = `are ${zones.join(", ")}; ${region} has ${regionFacts(known).zones.join(", ")}.`;
    errors.push(refuse("/zones", "unknown", message));
  }
  if (zones.length < 1 || zones.length > ZONES_MAX || new Set(zones).size < zones.length) {
    errors.push(refuse("/zones", "out_of_range", `must be 1 to ${ZONES_MAX} different zones.`));
  }
  if (!Number.isInteger(slots) || slots < 1 || slots > BROKERS_PER_CLUSTER_MAX) {
    const message = `is ${slots}; a stack has 1 to ${BROKERS_PER_CLUSTER_MAX} broker slots.`;
    errors.push(refuse("/brokers", "out_of_range", message));
  }
  if (slots > 1 && zones.length < ZONES_OF_SEVERAL_MIN) {
    const message = `must be ${ZONES_OF_SEVERAL_MIN} or more: the metadata database of several brokers has a standby in another zone.`;
    errors.push(refuse("/zones", "out_of_range", message));
  }
  return errors;
}

function networkErrors({ network, zones }: ClusterStackSpec): FieldError[] {
  const { vpcId, subnetIds, cidr, access, allowedPrincipals, allowedCidrs } = network;
  const errors: FieldError[] = [];
  if (vpcId === undefined && !/\/(1[6-9]|2[0-4])$/.test(cidr)) {
    const message = `is ${cidr}; a VPC's range has a prefix of 16 to 24 bits.`;
    errors.push(refuse("/network/cidr", "out_of_range", message));
  }
  const subnets = vpcId === undefined ? 0 : zones.length;
  if (subnetIds.length !== subnets) {
    const message =
      vpcId === undefined
        ? "belong to a VPC that exists: give vpc_id, or leave them out."
        : `are ${subnetIds.length}; one private subnet for each of the ${zones.length} zones.`;
    errors.push(refuse("/network/subnet_ids", "mismatch", message));
  }
  if (access === "private" && allowedPrincipals.length > 0) {
    const message = 'connect to an endpoint service: set access to "endpoint_service".';
    errors.push(refuse("/network/allowed_principals", "not_applicable", message));
  }
  if (vpcId !== undefined && access === "private" && allowedCidrs.length === 0) {
    const message = "are empty: in a VPC of yours, name the ranges that clients connect from.";
    errors.push(refuse("/network/allowed_cidrs", "required", message));
  }
  return errors;
}

function keyErrors({ storage, region }: ClusterStackSpec): FieldError[] {
  const arn = storage.kmsKeyArn;
  if (arn === undefined || arn.startsWith(`arn:aws:kms:${region}:`)) return [];
  const message = `is not a key of ${region}: volumes and bucket need one of their own region.`;
  return [refuse("/storage/kms_key_arn", "wrong_region", message)];
}

function linkErrors(spec: ClusterStackSpec): FieldError[] {
  const { name, domain, zones } = spec.controlLink;
  const errors: FieldError[] = [];
  if (!name.startsWith(`com.amazonaws.vpce.${spec.region}.vpce-svc-`)) {
    const message = `is ${name}; the control plane's endpoint service must be one of ${spec.region}.`;
    errors.push(refuse("/control_link/name", "wrong_region", message));
  }
  if (!/^(?:[a-z0-9-]{1,63}\.)+[a-z0-9-]{2,63}$/.test(domain)) {
    const message = `is ${domain}; it must be the domain of the gateways' certificate.`;
    errors.push(refuse("/control_link/domain", "invalid", message));
  }
  if (linkZonesOf(spec).length === 0) {
    const message = `are ${zones.join(", ")}; the cluster has none of them, so its brokers cannot reach the control plane.`;
    errors.push(refuse("/control_link/zones", "mismatch", message));
  }
  return errors;
}

function authorityErrors(spec: ClusterStackSpec): FieldError[] {
  if (!hasSeveral(spec) || spec.databaseAuthority !== undefined) return [];
  const message = "is needed: brokers verify the certificate of their metadata database.";
  return [refuse("/database_authority", "required", message)];
}

/**
 * Why the stack of `before` cannot become the one of `after` in place. Everything else
 * changes in place, without the replacement of a volume or bucket.
 */
export function forbiddenChanges(before: ClusterStackSpec, after: ClusterStackSpec): FieldError[] {
  return [
    ...fixed("/id", before.clusterId, after.clusterId),
    ...fixed("/account_id", before.accountId, after.accountId),
    ...fixed("/region", before.region, after.region),
    ...fixed("/network/vpc_id", before.network.vpcId, after.network.vpcId),
    ...fixed("/network/subnet_ids", before.network.subnetIds, after.network.subnetIds),
    ...fixed("/network/cidr", before.network.cidr, after.network.cidr),
    ...fixed("/storage/kms_key_arn", before.storage.kmsKeyArn, after.storage.kmsKeyArn),
    ...slotErrors(before, after),
    ...logErrors(before, after),
    ...checkWalVolumeChange(before.wal, after.wal).map((error) => ({
      ...error,
      pointer: `/wal${error.pointer}`,
    })),
  ];
}

function fixed(pointer: string, before: unknown, after: unknown): FieldError[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const message = `cannot change from ${shown(before)} to ${shown(after)}: make another cluster.`;
  return [refuse(pointer, "immutable", message)];
}

function shown(value: unknown): string {
  return value === undefined ? "none" : JSON.stringify(value);
}

/**
 * A volume stays in its zone. Of several slots the last ones may go, once their brokers have left the cluster, which the stack
 * does not know: the policy asks for it.
 */
function slotErrors(before: ClusterStackSpec, after: ClusterStackSpec): FieldError[] {
  if (hasSeveral(before) !== hasSeveral(after)) {
    const message = `cannot change from ${before.slots} to ${after.slots}: one broker has its metadata on its volume, several in a database.`;
    return [refuse("/brokers", "immutable", message)];
  }
  const zonesAfter = new Map(slotsOf(after).map(({ id, zone }) => [id, zone]));
  const moved = slotsOf(before).filter(({ id, zone }) => (zonesAfter.get(id) ?? zone) !== zone);
  return moved.length === 0 ? [] : fixed("/zones", before.zones, after.zones);
}

/** Multi-Attach is set when a volume is made, and a log that has a whole volume is as large as that was then. */
function logErrors(before: ClusterStackSpec, after: ClusterStackSpec): FieldError[] {
  if (!hasSeveral(before)) return [];
  return [
    ...fixed("/wal/type", before.wal.type, after.wal.type),
    ...(after.wal.sizeGib > before.wal.sizeGib
      ? fixed("/wal/size_gib", before.wal.sizeGib, after.wal.sizeGib)
      : []),
  ];
}
