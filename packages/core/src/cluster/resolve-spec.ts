import {
  type AwsNetwork,
  type AwsSpec,
  awsSizing,
  type ClusterSize,
  checkWalVolume,
  DEFAULT_AWS_NETWORK,
  type FieldError,
  isAwsRegion,
  type NetworkAccess,
  type Region,
  regionFacts,
  validationFailed,
  type WalVolume,
  type WalVolumeType,
  ZONES_OF_SEVERAL_MIN,
} from "@millrace/domain";

/** What is asked of a volume; what is absent follows from the size and the type. */
export interface WalRequest {
  readonly type?: WalVolumeType | undefined;
  readonly sizeGib?: number | undefined;
  readonly iops?: number | undefined;
  readonly throughputMibps?: number | null | undefined;
}

export interface NetworkRequest {
  readonly vpcId?: string | null | undefined;
  readonly subnetIds?: readonly string[] | undefined;
  readonly cidr?: string | undefined;
  readonly access?: NetworkAccess | undefined;
  readonly allowedPrincipals?: readonly string[] | undefined;
  readonly allowedCidrs?: readonly string[] | undefined;
}

export interface SpecRequest {
  readonly region: Region;
  readonly size: ClusterSize;
  /** One by default. */
  readonly brokers?: number | undefined;
  readonly zones?: number | undefined;
  readonly wal?: WalRequest | null | undefined;
  readonly network?: NetworkRequest | null | undefined;
  readonly storage?: { readonly kmsKeyArn?: string | null | undefined } | null | undefined;
  /** True by default. */
  readonly plaintextListener?: boolean | undefined;
}

export interface ResolvedSpec {
  readonly zones: number;
  readonly aws: AwsSpec | undefined;
}

/**
 * The whole of a spec: what was asked for, and defaults where nothing was. Throws
 * `validation_failed` with the pointer of each field that does not go with the others.
 */
export function resolveSpec(request: SpecRequest): ResolvedSpec {
  const { region, size } = request;
  if (!isAwsRegion(region)) {
    throwIfAny(fieldsOfAws(request));
    return { zones: 1, aws: undefined };
  }
  const { zones: known } = regionFacts(region);
  const zones = request.zones ?? known.length;
  const wal = walOf(size, request.wal ?? {});
  const network = networkOf(request.network ?? {});
  const kmsKeyArn = request.storage?.kmsKeyArn ?? undefined;
  throwIfAny([
    ...walErrors(size, wal),
    ...networkErrors(network, request.network?.cidr !== undefined, zones),
    ...keyErrors(kmsKeyArn, region),
    ...zonesErrors(request.brokers ?? 1, zones),
    ...plaintextErrors(request),
  ]);
  return { zones, aws: { wal, network, storage: { kmsKeyArn } } };
}

/** A volume as asked for: on top of `current`, or of what the size has by default. */
export function walOf(size: ClusterSize, request: WalRequest, current?: WalVolume): WalVolume {
  const base = current ?? awsSizing(size).wal;
  const type = request.type ?? base.type;
  const like = type === base.type ? base : undefined;
  const iops = request.iops ?? base.iops;
  const sizeGib = request.sizeGib ?? base.sizeGib;
  const throughput = request.throughputMibps ?? undefined;
  if (type === "io2") return { type, sizeGib, iops, throughputMibps: throughput };
  const included = awsSizing(size).wal.throughputMibps;
  return { type, sizeGib, iops, throughputMibps: throughput ?? like?.throughputMibps ?? included };
}

export function walErrors(size: ClusterSize, wal: WalVolume): FieldError[] {
  return under("/wal", checkWalVolume(wal, awsSizing(size).instance));
}

/** What holds of who can reach a network, new or old. */
export function reachErrors(network: AwsNetwork): FieldError[] {
  if (network.access === "endpoint_service" || network.allowedPrincipals.length === 0) return [];
  const message = "require access endpoint_service";
  return [{ pointer: "/network/allowed_principals", code: "not_applicable", message }];
}

/** The same errors with their pointers below `prefix`. */
export function under(prefix: string, errors: readonly FieldError[]): FieldError[] {
  return errors.map((error) => ({ ...error, pointer: `${prefix}${error.pointer}` }));
}

/** Throws `validation_failed` where there are errors. */
export function throwIfAny(fields: readonly FieldError[]): void {
  if (fields.length > 0) throw validationFailed(fields);
}

/** Fields of a request that make sense on AWS alone. */
export function fieldsOfAws(request: Partial<SpecRequest>): FieldError[] {
  const named = (["zones", "wal", "network", "storage"] as const).filter(
    (field) => request[field] !== undefined && request[field] !== null,
  );
  return named.map((field) => ({
    pointer: `/${field}`,
    code: "not_applicable",
    message: "is not supported in the region local",
  }));
}

/** Clusters on AWS have no other listener. */
export function plaintextErrors({
  plaintextListener,
}: Pick<SpecRequest, "plaintextListener">): FieldError[] {
  if (plaintextListener !== false) return [];
  const message = "can be false in the region local only";
  return [{ pointer: "/plaintext_listener", code: "not_applicable", message }];
}

function networkOf(request: NetworkRequest): AwsNetwork {
  return {
    vpcId: request.vpcId ?? undefined,
    subnetIds: request.subnetIds ?? [],
    cidr: request.cidr ?? DEFAULT_AWS_NETWORK.cidr,
    access: request.access ?? DEFAULT_AWS_NETWORK.access,
    allowedPrincipals: request.allowedPrincipals ?? [],
    allowedCidrs: request.allowedCidrs ?? [],
  };
}

function networkErrors(network: AwsNetwork, namesCidr: boolean, zones: number): FieldError[] {
  const errors = reachErrors(network);
  const { vpcId, subnetIds } = network;
  if (vpcId === undefined && subnetIds.length > 0) {
    const message = "require vpc_id";
    errors.push({ pointer: "/network/subnet_ids", code: "not_applicable", message });
  }
  if (vpcId !== undefined && subnetIds.length !== zones) {
    const message = `must name ${zones} private subnets, one per zone`;
    errors.push({ pointer: "/network/subnet_ids", code: "out_of_range", message });
  }
  if (vpcId !== undefined && namesCidr) {
    const message = "cannot be set with vpc_id";
    errors.push({ pointer: "/network/cidr", code: "not_applicable", message });
  }
  return errors;
}

function zonesErrors(brokers: number, zones: number): FieldError[] {
  if (brokers === 1 || zones >= ZONES_OF_SEVERAL_MIN) return [];
  const message = `must be ${ZONES_OF_SEVERAL_MIN} or more with several brokers: their metadata database has a standby in another zone`;
  return [{ pointer: "/zones", code: "too_small", message }];
}

function keyErrors(arn: string | undefined, region: Region): FieldError[] {
  if (arn === undefined || arn.startsWith(`arn:aws:kms:${region}:`)) return [];
  const message = `must be a key in ${region}`;
  return [{ pointer: "/storage/kms_key_arn", code: "invalid", message }];
}
