import { KmsKey } from "@cdktn/provider-aws/lib/kms-key/index.js";
import { SecurityGroup } from "@cdktn/provider-aws/lib/security-group/index.js";
import type { TerraformStack } from "cdktn";
import { BrokerSlot } from "../../constructs/broker-slot/broker-slot.ts";
import { userData } from "../../constructs/broker-slot/user-data.ts";
import { DataBucket } from "../../constructs/data-bucket/data-bucket.ts";
import { Endpoint } from "../../constructs/endpoint/endpoint.ts";
import { SlotRole } from "../../constructs/identity/slot-role.ts";
import { Network } from "../../constructs/network/network.ts";
import { WalVolume } from "../../constructs/wal-volume/wal-volume.ts";
import { type SynthRun, synthesize } from "../../synth.ts";
import { type Tags, tagEverything } from "../../tagging.ts";
import {
  ADMIN_PORT_SLOT_0,
  type ClusterNames,
  clusterNames,
  KAFKA_PORT_BOOTSTRAP,
  KAFKA_PORT_SLOT_0,
} from "./names.ts";
import type { ClusterStackSpec } from "./spec.ts";

/** Ports of the broker on its instance. */
const BROKER_KAFKA_PORT = 9092;
const BROKER_ADMIN_PORT = 9644;

function tagsOf(spec: ClusterStackSpec): Tags {
  return {
    ...spec.labels,
    "millrace:tenant": spec.organizationId,
    "millrace:environment": spec.environmentId,
    "millrace:cluster": spec.clusterId,
    "millrace:managed-by": "millrace",
  };
}

interface Slot {
  readonly index: number;
  readonly zone: string;
  readonly zoneIndex: number;
}

function slotsOf(spec: ClusterStackSpec): Slot[] {
  return Array.from({ length: spec.slots }, (_, index) => {
    const zoneIndex = index % spec.zones.length;
    return { index, zone: spec.zones[zoneIndex] as string, zoneIndex };
  });
}

/** What outlives everything but the purge. */
function dataParts(stack: TerraformStack, spec: ClusterStackSpec, names: ClusterNames): string {
  const isProtected = spec.mode !== "purge";
  const kmsKeyArn =
    spec.kmsKeyArn ??
    new KmsKey(stack, "key", {
      description: `Data of the Kafka cluster ${spec.name}`,
      enableKeyRotation: true,
      deletionWindowInDays: 7,
    }).arn;
  new DataBucket(stack, "data", { name: names.bucket, kmsKeyArn, protected: isProtected });
  for (const slot of slotsOf(spec)) {
    new WalVolume(stack, `wal-${slot.index}`, {
      ...spec.wal,
      name: `${names.prefix}-wal-${slot.index}`,
      zone: slot.zone,
      kmsKeyArn,
      tags: { "millrace:slot": String(slot.index) },
      protected: isProtected,
    });
  }
  return kmsKeyArn;
}

function servingParts(stack: TerraformStack, spec: ClusterStackSpec, names: ClusterNames): void {
  const network = new Network(stack, "network", {
    prefix: names.prefix,
    cidr: spec.network.cidr,
    zones: spec.zones,
    ...(spec.network.existing === undefined ? {} : { existing: spec.network.existing }),
  });
  const brokers = new SecurityGroup(stack, "brokers", {
    name: `${names.prefix}-brokers`,
    description: `Brokers of the Kafka cluster ${spec.name}`,
    vpcId: network.vpcId,
  });
  const endpoint = new Endpoint(stack, "endpoint", {
    prefix: names.prefix,
    vpcId: network.vpcId,
    subnetIds: network.subnetIds,
    securityGroupId: brokers.id,
  });
  const bootstrap = endpoint.listen({
    name: "bootstrap",
    port: KAFKA_PORT_BOOTSTRAP,
    targetPort: BROKER_KAFKA_PORT,
    healthPort: BROKER_ADMIN_PORT,
  });
  for (const slot of slotsOf(spec)) {
    const listener = (name: string, port: number, targetPort: number) =>
      endpoint.listen({ name, port, targetPort, healthPort: BROKER_ADMIN_PORT });
    const role = new SlotRole(stack, `role-${slot.index}`, {
      name: names.autoScalingGroup(slot.index),
      permissionsBoundaryArn: spec.permissionsBoundaryArn,
      statements: [
        {
          Sid: "Data",
          Effect: "Allow",
          Action: ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
          Resource: [`arn:aws:s3:::${names.bucket}/*`],
        },
      ],
    });
    new BrokerSlot(stack, `slot-${slot.index}`, {
      name: names.autoScalingGroup(slot.index),
      instanceType: spec.instanceType,
      subnetId: network.subnetIds[slot.zoneIndex] as string,
      securityGroupId: brokers.id,
      instanceProfileArn: role.instanceProfileArn,
      targetGroupArns: [
        bootstrap,
        listener(`kafka-${slot.index}`, KAFKA_PORT_SLOT_0 + slot.index, BROKER_KAFKA_PORT),
        listener(`admin-${slot.index}`, ADMIN_PORT_SLOT_0 + slot.index, BROKER_ADMIN_PORT),
      ],
      userData: userData({
        region: spec.region,
        clusterId: spec.clusterId,
        slot: slot.index,
        broker: spec.artefact,
        dataBucket: {
          name: names.bucket,
          uri: `s3://${names.bucket}?region=${spec.region}`,
        },
        adminTokenSecret: names.adminTokenSecret,
        logGroup: names.logGroup,
        listen: { kafkaPort: BROKER_KAFKA_PORT, adminPort: BROKER_ADMIN_PORT },
        advertised: { host: names.slotHost(slot.index), port: KAFKA_PORT_SLOT_0 + slot.index },
        properties: spec.properties,
        wal: { capacityBytes: (spec.wal.sizeGib - 2) * 1024 ** 3, iops: spec.wal.iops },
      }),
      tags: { ...tagsOf(spec), "millrace:slot": String(slot.index) },
      running: spec.mode === "running",
    });
  }
}

/** The Terraform JSON of one tenant's cluster. The same spec and run always give the same text. */
export function synthesizeCluster(spec: ClusterStackSpec, run: SynthRun): string {
  const names = clusterNames(spec.clusterId, spec.accountId);
  return synthesize("cluster", spec.region, run, (stack) => {
    dataParts(stack, spec, names);
    if (spec.mode === "running" || spec.mode === "paused") servingParts(stack, spec, names);
    tagEverything(stack, tagsOf(spec));
  });
}
