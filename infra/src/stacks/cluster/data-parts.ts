import type { TerraformStack } from "cdktn";
import { DataBucket } from "../../constructs/data-bucket/data-bucket.ts";
import { EncryptionKey } from "../../constructs/encryption-key/encryption-key.ts";
import { LogGroup } from "../../constructs/observability/log-group.ts";
import { WalVolume } from "../../constructs/wal-volume/wal-volume.ts";
import type { ClusterNames } from "./names.ts";
import { slotTags } from "./slot-permissions.ts";
import { type ClusterStackSpec, slotsOf } from "./spec.ts";

export interface DataParts {
  readonly kmsKeyArn: string;
  /** By slot. */
  readonly volumes: readonly WalVolume[];
  readonly bucket: DataBucket;
  readonly logs: LogGroup;
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
  const volumes = slotsOf(spec).map(
    ({ index, zone }) =>
      new WalVolume(stack, `wal-${index}`, {
        name: `${names.prefix}-wal-${index}`,
        zone,
        shape: spec.wal,
        kmsKeyArn,
        tags: slotTags(spec.clusterId, index),
        protected: isProtected,
      }),
  );
  return { kmsKeyArn, volumes, bucket, logs };
}
