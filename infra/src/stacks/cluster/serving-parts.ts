import { awsSizing, baselinesOf } from "@millrace/domain";
import { TerraformOutput, type TerraformStack } from "cdktn";
import { BrokerSlot } from "../../constructs/broker-slot/broker-slot.ts";
import { userData } from "../../constructs/broker-slot/user-data.ts";
import { LinkCredential } from "../../constructs/control-link/link-credential.ts";
import { Endpoint } from "../../constructs/endpoint/endpoint.ts";
import { PrivateLink } from "../../constructs/endpoint/private-link.ts";
import { PrivateNames } from "../../constructs/endpoint/private-names.ts";
import { SlotRole } from "../../constructs/identity/slot-role.ts";
import { EndpointAlarm, SlotAlarms } from "../../constructs/observability/alarms.ts";
import type { WalVolume } from "../../constructs/wal-volume/wal-volume.ts";
import type { Tags } from "../../tagging.ts";
import type { DataParts } from "./data-parts.ts";
import {
  BROKER_KAFKA_PORT,
  type ClusterNames,
  KAFKA_PORT_BOOTSTRAP,
  KAFKA_PORT_SLOT_0,
  LINK_PORT,
} from "./names.ts";
import { addNetworkParts, type NetworkParts } from "./network-parts.ts";
import { slotStatements, slotTags } from "./slot-permissions.ts";
import { type ClusterStackSpec, type Slot, slotsOf } from "./spec.ts";

/** Everything that serves clients, and is deleted with the cluster. */
export function addServingParts(
  stack: TerraformStack,
  spec: ClusterStackSpec,
  names: ClusterNames,
  data: DataParts,
  tags: Tags,
): void {
  const network = addNetworkParts(stack, spec, names);
  const endpoint = new Endpoint(stack, "endpoint", {
    prefix: names.prefix,
    vpcId: network.vpcId,
    subnetIds: network.subnetIds,
    securityGroupId: network.balancer.id,
  });
  const bootstrap = endpoint.listen({
    name: "bootstrap",
    port: KAFKA_PORT_BOOTSTRAP,
    targetPort: BROKER_KAFKA_PORT,
  });
  const topics = spec.alarmTopicArns ?? [];
  for (const slot of slotsOf(spec)) {
    addSlot({ stack, spec, names, data, tags, network, endpoint, topics }, slot, bootstrap.arn);
  }
  if (spec.mode === "running") {
    new EndpointAlarm(stack, "endpoint-alarm", {
      name: names.prefix,
      balancerSuffix: endpoint.balancer.arnSuffix,
      targetGroupSuffix: bootstrap.arnSuffix,
      topicArns: topics,
    });
  }
  new PrivateNames(stack, "names", {
    zone: names.dnsZone,
    comment: `Kafka cluster ${spec.clusterId}`,
    vpcId: network.vpcId,
    target: endpoint.balancer,
    names: {
      bootstrap: names.bootstrapHost,
      ...Object.fromEntries(
        slotsOf(spec).map(({ index }) => [`slot-${index}`, names.slotHost(index)]),
      ),
    },
  });
  addOutputs(stack, spec, names, network, endpoint, data);
}

interface SlotSurroundings {
  readonly stack: TerraformStack;
  readonly spec: ClusterStackSpec;
  readonly names: ClusterNames;
  readonly data: DataParts;
  readonly tags: Tags;
  readonly network: NetworkParts;
  readonly endpoint: Endpoint;
  /** SNS topics of the alarms. */
  readonly topics: readonly string[];
}

function addSlot(around: SlotSurroundings, slot: Slot, bootstrapTargets: string): void {
  const { stack, spec, names, data, network, endpoint } = around;
  const { index } = slot;
  const volume = data.volumes[index] as WalVolume;
  const name = names.autoScalingGroup(index);
  const role = new SlotRole(stack, `role-${index}`, {
    name: names.roleOf(index),
    permissionsBoundaryArn: spec.permissionsBoundaryArn,
    statements: slotStatements(spec, names, data.kmsKeyArn, index),
  });
  const kafka = endpoint.listen({
    name: `kafka-${index}`,
    port: KAFKA_PORT_SLOT_0 + index,
    targetPort: BROKER_KAFKA_PORT,
  });
  const credential = new LinkCredential(stack, `link-credential-${index}`, {
    name: names.linkSecret(index),
    description: `Credential of the control link of slot ${index} of the Kafka cluster ${spec.clusterId}`,
    kmsKeyArn: data.kmsKeyArn,
  });
  new BrokerSlot(stack, `slot-${index}`, {
    name,
    instanceType: awsSizing(spec.size).instance.type,
    amiId: spec.amiId,
    subnetId: network.subnetIds[slot.zoneIndex] as string,
    securityGroupId: network.brokers.id,
    instanceProfileArn: role.instanceProfileArn,
    targetGroupArns: [bootstrapTargets, kafka.arn],
    userData: slotUserData(spec, names, index),
    tags: { ...around.tags, ...slotTags(spec.clusterId, index) },
    running: spec.mode === "running",
    needs: [
      ...[volume, data.bucket, data.logs, credential, role],
      ...[network.brokers, ...network.waysOut],
    ],
  });
  if (spec.mode === "running") {
    new SlotAlarms(stack, `alarms-${index}`, {
      clusterId: spec.clusterId,
      slot: index,
      groupName: name,
      volumeId: volume.id,
      name,
      topicArns: around.topics,
    });
  }
}

/** Broker settings that follow from the limits of volume and machine. */
function slotUserData(spec: ClusterStackSpec, names: ClusterNames, slot: number): string {
  const baselines = baselinesOf(spec.wal, awsSizing(spec.size).instance);
  const { bucket, key, sha256 } = spec.artefact;
  return userData({
    clusterId: spec.clusterId,
    slot,
    region: spec.region,
    broker: { bucket, key, sha256 },
    dataBucket: { name: names.bucket, uri: `s3://${names.bucket}?region=${spec.region}` },
    link: {
      address: `${names.linkHost(spec.controlLink.domain)}:${LINK_PORT}`,
      credentialSecret: names.linkSecret(slot),
    },
    kafkaPort: BROKER_KAFKA_PORT,
    advertised: { host: names.slotHost(slot), port: KAFKA_PORT_SLOT_0 + slot },
    wal: {
      capacityBytes: baselines.walCapacityBytes,
      iops: baselines.walIops,
      bandwidthBytes: baselines.walBytesPerSecond,
    },
    logGroup: names.logGroup,
    properties: {
      "s3.network.ingress.baseline.bandwidth": String(baselines.ingressBytesPerSecond),
      "s3.network.egress.baseline.bandwidth": String(baselines.egressBytesPerSecond),
      ...spec.properties,
    },
  });
}

function addOutputs(
  stack: TerraformStack,
  spec: ClusterStackSpec,
  names: ClusterNames,
  network: NetworkParts,
  endpoint: Endpoint,
  data: DataParts,
): void {
  const link =
    spec.network.access === "endpoint_service"
      ? new PrivateLink(stack, "private-link", {
          name: names.prefix,
          balancerArn: endpoint.balancer.arn,
          allowedPrincipals: spec.network.allowedPrincipals,
        }).serviceName
      : "";
  const outputs = {
    bootstrap_servers: `${names.bootstrapHost}:${KAFKA_PORT_BOOTSTRAP}`,
    balancer_dns_name: endpoint.balancer.dnsName,
    endpoint_service_name: link,
    vpc_id: network.vpcId,
    kms_key_arn: data.kmsKeyArn,
  };
  for (const [id, value] of Object.entries(outputs)) new TerraformOutput(stack, id, { value });
}
