import { awsSizing } from "@millrace/domain";
import type { TerraformStack } from "cdktn";
import { AUTHORITY_FILE } from "../../constructs/broker-slot/user-data.ts";
import { DataBucket } from "../../constructs/data-bucket/data-bucket.ts";
import { EncryptionKey } from "../../constructs/encryption-key/encryption-key.ts";
import { MetadataDatabase } from "../../constructs/metadata-database/metadata-database.ts";
import { Network } from "../../constructs/network/network.ts";
import { LogGroup } from "../../constructs/observability/log-group.ts";
import { WalVolume } from "../../constructs/wal-volume/wal-volume.ts";
import type { ClusterNames } from "./names.ts";
import { volumeTags } from "./slot-permissions.ts";
import { type ClusterStackSpec, hasSeveral, slotsOf } from "./spec.ts";

export interface DataParts {
  readonly kmsKeyArn: string;
  /** By the slot's id. */
  readonly volumes: ReadonlyMap<number, WalVolume>;
  readonly bucket: DataBucket;
  readonly logs: LogGroup;
  /** What several slots share, in the network that stays as long as it. */
  readonly metadata?: { readonly database: MetadataDatabase; readonly network: Network };
}

/** Resources with data, and their key: they outlive everything except a purge. */
export function addDataParts(
  stack: TerraformStack,
  spec: ClusterStackSpec,
  names: ClusterNames,
): DataParts {
  const isProtected = spec.mode !== "purge";
  const kmsKeyArn =
    spec.storage.kmsKeyArn ??
    new EncryptionKey(stack, "encryption", {
      name: names.prefix,
      description: `Everything that the Kafka cluster ${spec.clusterId} stores`,
      accountId: spec.accountId,
      region: spec.region,
      logGroup: names.logGroup,
      provisionerRoleArn: spec.provisionerRoleArn,
      protected: isProtected,
    }).arn;
  const bucket = new DataBucket(stack, "data", {
    name: names.bucket,
    kmsKeyArn,
    protected: isProtected,
  });
  const logs = new LogGroup(stack, "logs", { name: names.logGroup, kmsKeyArn });
  const volumes = new Map(
    slotsOf(spec).map(({ id, zone }) => [
      id,
      new WalVolume(stack, `wal-${id}`, {
        name: `${names.prefix}-wal-${id}`,
        zone,
        shape: spec.wal,
        // Only io2 volumes can be: see WalFence.
        multiAttach: hasSeveral(spec) && spec.wal.type === "io2",
        kmsKeyArn,
        tags: volumeTags(spec, id),
        protected: isProtected,
      }),
    ]),
  );
  const data = { kmsKeyArn, volumes, bucket, logs };
  if (!hasSeveral(spec)) return data;
  return { ...data, metadata: addMetadata(stack, spec, names, kmsKeyArn) };
}

function addMetadata(
  stack: TerraformStack,
  spec: ClusterStackSpec,
  names: ClusterNames,
  kmsKeyArn: string,
) {
  const network = addNetwork(stack, spec, names);
  const database = new MetadataDatabase(stack, "metadata", {
    name: names.prefix,
    clusterId: spec.clusterId,
    vpcId: network.vpcId,
    subnetIds: network.subnetIds,
    instanceClass: awsSizing(spec.size).metadata,
    kmsKeyArn,
    secrets: names.metadataSecrets,
    authorityFile: AUTHORITY_FILE,
    protected: spec.mode !== "purge",
  });
  return { database, network };
}

/** The cluster's subnets, in a VPC of its own or in the tenant's. */
export function addNetwork(
  stack: TerraformStack,
  spec: ClusterStackSpec,
  names: ClusterNames,
): Network {
  const { vpcId, subnetIds, cidr } = spec.network;
  return new Network(stack, "network", {
    prefix: names.prefix,
    cidr,
    zones: spec.zones,
    ...(vpcId === undefined ? {} : { existing: { vpcId, subnetIds } }),
  });
}
