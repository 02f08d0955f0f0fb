import { BROKERS_PER_CLUSTER_MAX } from "@millrace/domain";
import type { TerraformStack } from "cdktn";
import type { Construct } from "constructs";
import { INTER_BROKER_PORT } from "../../constructs/broker-slot/user-data.ts";
import { ControlLink } from "../../constructs/control-link/control-link.ts";
import { METADATA_DATABASE_PORT } from "../../constructs/metadata-database/metadata-database.ts";
import { AwsAccess } from "../../constructs/network/aws-access.ts";
import { Firewall, type Peer, type PortRange } from "../../constructs/network/firewall.ts";
import type { Network } from "../../constructs/network/network.ts";
import { addNetwork, type DataParts } from "./data-parts.ts";
import {
  BROKER_KAFKA_PORT,
  type ClusterNames,
  KAFKA_PORT_BOOTSTRAP,
  KAFKA_PORT_SLOT_0,
  LINK_PORT,
} from "./names.ts";
import { endpointActions, s3EndpointStatements } from "./slot-permissions.ts";
import { type ClusterStackSpec, hasSeveral, linkZonesOf, slotsOf } from "./spec.ts";

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
  { metadata }: DataParts,
): NetworkParts {
  const network = metadata?.network ?? addNetwork(stack, spec, names);
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
  if (metadata !== undefined) {
    admitToMetadata(metadata.database.firewall, brokers);
    admitPeers(brokers);
  }
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

function admitToMetadata(database: Firewall, brokers: Firewall): void {
  const ports = { from: METADATA_DATABASE_PORT, to: METADATA_DATABASE_PORT };
  database.admit("brokers", "Brokers", ports, { group: brokers });
  brokers.release("metadata", "Metadata database", ports, { group: database });
}

/** Brokers reach each other at a listener of their own, where they sign in with the cluster's secret. */
function admitPeers(brokers: Firewall): void {
  const ports = { from: INTER_BROKER_PORT, to: INTER_BROKER_PORT };
  brokers.release("peers", "The other brokers", ports, { group: brokers });
  brokers.admit("peers", "The other brokers", ports, { group: brokers });
}

/** Of the load balancer. With several slots, those of the most there can be: the rules stay when slots come and go. */
function listenersOf(spec: ClusterStackSpec): PortRange {
  const last = hasSeveral(spec) ? BROKERS_PER_CLUSTER_MAX : 0;
  return { from: KAFKA_PORT_BOOTSTRAP, to: KAFKA_PORT_SLOT_0 + last };
}

function admitClients(balancer: Firewall, spec: ClusterStackSpec): void {
  const kafka = listenersOf(spec);
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
    actions: endpointActions(spec),
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
