import type { TerraformStack } from "cdktn";
import type { Construct } from "constructs";
import { ControlLink } from "../../constructs/control-link/control-link.ts";
import { AwsAccess } from "../../constructs/network/aws-access.ts";
import { Firewall, type Peer } from "../../constructs/network/firewall.ts";
import { Network } from "../../constructs/network/network.ts";
import {
  BROKER_KAFKA_PORT,
  type ClusterNames,
  KAFKA_PORT_BOOTSTRAP,
  KAFKA_PORT_SLOT_0,
  LINK_PORT,
} from "./names.ts";
import { ENDPOINT_ACTIONS, s3EndpointStatements } from "./slot-permissions.ts";
import { type ClusterStackSpec, linkZonesOf, slotsOf } from "./spec.ts";

export interface NetworkParts {
  readonly vpcId: string;
  /** By zone. */
  readonly subnetIds: readonly string[];
  readonly balancer: Firewall;
  readonly brokers: Firewall;
  /** The brokers' endpoints of AWS. */
  readonly waysOut: readonly Construct[];
}

const HTTPS = { from: 443, to: 443 };
const KAFKA = { from: BROKER_KAFKA_PORT, to: BROKER_KAFKA_PORT };

/** Subnets, endpoints and security groups. Nothing but Kafka's port lets anybody in. */
export function addNetworkParts(
  stack: TerraformStack,
  spec: ClusterStackSpec,
  names: ClusterNames,
): NetworkParts {
  const { vpcId, subnetIds, cidr } = spec.network;
  const network = new Network(stack, "network", {
    prefix: names.prefix,
    cidr,
    zones: spec.zones,
    ...(vpcId === undefined ? {} : { existing: { vpcId, subnetIds } }),
  });
  const balancer = new Firewall(stack, "balancer", {
    name: `${names.prefix}-balancer`,
    description: `Load balancer of the Kafka cluster ${spec.clusterId}`,
    vpcId: network.vpcId,
  });
  const brokers = new Firewall(stack, "brokers", {
    name: `${names.prefix}-brokers`,
    description: `Brokers of the Kafka cluster ${spec.clusterId}`,
    vpcId: network.vpcId,
  });
  admitClients(balancer, spec);
  balancer.release("kafka", "Kafka of the brokers", KAFKA, { group: brokers });
  brokers.admit("kafka", "Kafka, through the balancer", KAFKA, { group: balancer });
  const ways = waysOut(stack, spec, names, network);
  for (const [id, description, peer] of ways.rules) brokers.release(id, description, HTTPS, peer);
  // No instance waits for it: a broker serves clients without it, and dials until it is there.
  new ControlLink(stack, "control-link", {
    name: `${names.prefix}-link`,
    clusterId: spec.clusterId,
    vpcId: network.vpcId,
    subnetIds: linkZonesOf(spec).map((zone) => network.subnetIds[zone] as string),
    serviceName: spec.controlLink.name,
    host: names.linkHost(spec.controlLink.domain),
    port: LINK_PORT,
    brokers,
  });
  return {
    vpcId: network.vpcId,
    subnetIds: network.subnetIds,
    balancer,
    brokers,
    waysOut: ways.made,
  };
}

function admitClients(balancer: Firewall, spec: ClusterStackSpec): void {
  const last = spec.slots - 1;
  const kafka = { from: KAFKA_PORT_BOOTSTRAP, to: KAFKA_PORT_SLOT_0 + last };
  const { vpcId, cidr, allowedCidrs } = spec.network;
  // EC2 rejects duplicate rules, so each range is listed once, with its first description.
  const ranges = new Map<string, readonly [id: string, description: string]>();
  if (vpcId === undefined) ranges.set(cidr, ["network", "Kafka clients of the network"]);
  for (const allowed of allowedCidrs) {
    // Named by the range, so that removing one does not change the others' rules.
    const id = allowed.replaceAll(/[^0-9]/g, "-");
    if (!ranges.has(allowed)) ranges.set(allowed, [id, "Kafka clients that were allowed"]);
  }
  for (const [range, [id, description]] of ranges) {
    balancer.admit(id, description, kafka, { cidr: range });
  }
}

interface WaysOut {
  readonly rules: readonly (readonly [id: string, description: string, peer: Peer])[];
  readonly made: readonly Construct[];
}

/** How brokers reach AWS. In a tenant's VPC the tenant decides that. */
function waysOut(
  stack: TerraformStack,
  spec: ClusterStackSpec,
  names: ClusterNames,
  network: Network,
): WaysOut {
  if (network.routeTableId === undefined) {
    const anywhere = { cidr: "0.0.0.0/0" };
    return { rules: [["aws", "AWS, by the ways that the network has", anywhere]], made: [] };
  }
  const endpoints = new Firewall(stack, "endpoints", {
    name: `${names.prefix}-endpoints`,
    description: `Endpoints of AWS for the Kafka cluster ${spec.clusterId}`,
    vpcId: network.vpcId,
  });
  endpoints.admit("network", "Brokers", HTTPS, { cidr: spec.network.cidr });
  const zones = new Set(slotsOf(spec).map(({ zoneIndex }) => zoneIndex));
  const access = new AwsAccess(stack, "aws-access", {
    prefix: names.prefix,
    accountId: spec.accountId,
    region: spec.region,
    vpcId: network.vpcId,
    routeTableId: network.routeTableId,
    subnetIds: network.subnetIds.filter((_, zone) => zones.has(zone)),
    securityGroupId: endpoints.id,
    actions: ENDPOINT_ACTIONS,
    s3: s3EndpointStatements(spec, names),
  });
  return {
    rules: [
      ["endpoints", "Endpoints of AWS", { group: endpoints }],
      ["s3", "S3", { prefixListId: access.s3PrefixListId }],
    ],
    made: [network, endpoints, access],
  };
}
