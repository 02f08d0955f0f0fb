import { awsSizing, baselinesOf } from "@millrace/domain";
import { TerraformOutput, type TerraformStack } from "cdktn";
import { BrokerSlot } from "../../constructs/broker-slot/broker-slot.ts";
import { type SeveralSettings, userData } from "../../constructs/broker-slot/user-data.ts";
import { LinkCredential } from "../../constructs/control-link/link-credential.ts";
import { Endpoint } from "../../constructs/endpoint/endpoint.ts";
import { PrivateLink } from "../../constructs/endpoint/private-link.ts";
import { PrivateNames } from "../../constructs/endpoint/private-names.ts";
import { SlotRole } from "../../constructs/identity/slot-role.ts";
import {
  DatabaseAlarms,
  EndpointAlarm,
  SlotAlarms,
} from "../../constructs/observability/alarms.ts";
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
import { type ClusterStackSpec, hasSeveral, type Slot, slotsOf } from "./spec.ts";
import { walFence } from "./wal-fence.ts";

/** Everything that serves clients, and is deleted with the cluster. */
export function addServingParts(
  stack: TerraformStack,
  spec: ClusterStackSpec,
  names: ClusterNames,
  data: DataParts,
  tags: Tags,
): void {
  const network = addNetworkParts(stack, spec, names, data);
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
    if (data.metadata !== undefined) {
      new DatabaseAlarms(stack, "metadata-alarms", {
        name: names.prefix,
        identifier: data.metadata.database.identifier,
        topicArns: topics,
      });
    }
  }
  new PrivateNames(stack, "names", {
    zone: names.dnsZone,
    comment: `Kafka cluster ${spec.clusterId}`,
    vpcId: network.vpcId,
    target: endpoint.balancer,
    names: {
      bootstrap: names.bootstrapHost,
      ...Object.fromEntries(slotsOf(spec).map(({ id }) => [`slot-${id}`, names.slotHost(id)])),
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
  const { id } = slot;
  const volume = data.volumes.get(id) as WalVolume;
  const name = names.autoScalingGroup(id);
  const role = new SlotRole(stack, `role-${id}`, {
    name: names.roleOf(id),
    permissionsBoundaryArn: spec.permissionsBoundaryArn,
    statements: slotStatements(spec, names, data.kmsKeyArn, id),
  });
  const kafka = endpoint.listen({
    name: `kafka-${id}`,
    port: KAFKA_PORT_SLOT_0 + id,
    targetPort: BROKER_KAFKA_PORT,
  });
  const credential = new LinkCredential(stack, `link-credential-${id}`, {
    name: names.linkSecret(id),
    description: `Credential of the control link of slot ${id} of the Kafka cluster ${spec.clusterId}`,
    kmsKeyArn: data.kmsKeyArn,
  });
  new BrokerSlot(stack, `slot-${id}`, {
    name,
    instanceType: awsSizing(spec.size).instance.type,
    amiId: spec.amiId,
    subnetId: network.subnetIds[slot.zoneIndex] as string,
    securityGroupId: network.brokers.id,
    instanceProfileArn: role.instanceProfileArn,
    targetGroupArns: [bootstrapTargets, kafka.arn],
    userData: slotUserData(spec, names, slot),
    tags: { ...around.tags, ...slotTags(spec.clusterId, id) },
    running: spec.mode === "running",
    needs: [
      ...[volume, data.bucket, data.logs, credential, role],
      ...[network.brokers, ...network.waysOut],
      ...(data.metadata === undefined ? [] : [data.metadata.database]),
    ],
  });
  if (spec.mode === "running") {
    new SlotAlarms(stack, `alarms-${id}`, {
      clusterId: spec.clusterId,
      slot: id,
      groupName: name,
      volumeId: volume.id,
      name,
      topicArns: around.topics,
    });
  }
}

/** Broker settings that follow from the limits of volume and machine. */
function slotUserData(spec: ClusterStackSpec, names: ClusterNames, { id, zone }: Slot): string {
  const baselines = baselinesOf(spec.wal, awsSizing(spec.size).instance);
  const { bucket, key, sha256 } = spec.artefact;
  return userData({
    clusterId: spec.clusterId,
    slot: id,
    region: spec.region,
    broker: { bucket, key, sha256 },
    dataBucket: { name: names.bucket, uri: `s3://${names.bucket}?region=${spec.region}` },
    link: {
      address: `${names.linkHost(spec.controlLink.domain)}:${LINK_PORT}`,
      credentialSecret: names.linkSecret(id),
    },
    kafkaPort: BROKER_KAFKA_PORT,
    advertised: { host: names.slotHost(id), port: KAFKA_PORT_SLOT_0 + id },
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
    ...(hasSeveral(spec) && { several: severalSettings(spec, names, zone) }),
  });
}

function severalSettings(
  spec: ClusterStackSpec,
  names: ClusterNames,
  zone: string,
): SeveralSettings {
  return {
    rack: zone,
    fence: walFence(spec.wal.type),
    metadataSecret: names.metadataSecrets.url,
    databaseAuthority: spec.databaseAuthority ?? "",
  };
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
