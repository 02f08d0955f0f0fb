import { VpcEndpoint } from "@cdktn/provider-aws/lib/vpc-endpoint/index.js";
import { Construct } from "constructs";
import { PrivateNames } from "../endpoint/private-names.ts";
import { Firewall } from "../network/firewall.ts";

export interface ControlLinkProps {
  /** Of the endpoint and its security group. */
  readonly name: string;
  readonly clusterId: string;
  readonly vpcId: string;
  /** Subnets that get an address of the endpoint, one per zone. */
  readonly subnetIds: readonly string[];
  /** The endpoint service of the control plane. */
  readonly serviceName: string;
  /** The name that brokers dial, which the gateways' certificate is for. */
  readonly host: string;
  readonly port: number;
  /** Who dials. */
  readonly brokers: Firewall;
}

/**
 * The brokers' way to the gateways of the control plane. They dial out, and nothing dials in, so the networks of
 * clusters and control plane may have the same addresses.
 */
export class ControlLink extends Construct {
  constructor(scope: Construct, id: string, props: ControlLinkProps) {
    super(scope, id);
    const { name, vpcId, brokers } = props;
    const ports = { from: props.port, to: props.port };
    const firewall = new Firewall(this, "firewall", {
      name,
      description: `Endpoint of the control plane for the Kafka cluster ${props.clusterId}`,
      vpcId,
    });
    firewall.admit("brokers", "Brokers", ports, { group: brokers });
    brokers.release("control-plane", "Gateways of the control plane", ports, { group: firewall });
    const endpoint = new VpcEndpoint(this, "endpoint", {
      vpcId,
      vpcEndpointType: "Interface",
      serviceName: props.serviceName,
      // A service's private name can stand in a VPC once only, and several clusters may share one.
      privateDnsEnabled: false,
      subnetIds: [...props.subnetIds],
      securityGroupIds: [firewall.id],
      tags: { Name: name },
    });
    // The endpoint's first name is that of all its zones.
    const { dnsName, hostedZoneId: zoneId } = endpoint.dnsEntry.get(0);
    new PrivateNames(this, "names", {
      zone: props.host,
      comment: `Control plane of the Kafka cluster ${props.clusterId}`,
      vpcId,
      target: { dnsName, zoneId },
      names: { gateways: props.host },
    });
  }
}
