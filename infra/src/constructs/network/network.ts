import { DefaultSecurityGroup } from "@cdktn/provider-aws/lib/default-security-group/index.js";
import { RouteTable } from "@cdktn/provider-aws/lib/route-table/index.js";
import { RouteTableAssociation } from "@cdktn/provider-aws/lib/route-table-association/index.js";
import { Subnet } from "@cdktn/provider-aws/lib/subnet/index.js";
import { Vpc } from "@cdktn/provider-aws/lib/vpc/index.js";
import { Fn } from "cdktn";
import { Construct } from "constructs";

export interface NetworkProps {
  /** Begins the `Name` tags. */
  readonly prefix: string;
  /** IPv4 range of the VPC, /16 to /24. */
  readonly cidr: string;
  /** Zones to have a private subnet in, at most three. */
  readonly zones: readonly string[];
  /** An existing VPC, with a subnet for each zone in the same order: nothing is created then. */
  readonly existing?: { readonly vpcId: string; readonly subnetIds: readonly string[] };
}

/** A quarter of the range for each of at most three zones, and a quarter stays free. */
const SUBNET_BITS = 2;

/**
 * Private subnets over the zones, without a route to the internet: brokers reach AWS through endpoints.
 */
export class Network extends Construct {
  readonly vpcId: string;
  /** One in each zone, in the order of the zones. */
  readonly subnetIds: readonly string[];
  /** Routes of the subnets; undefined where the VPC is the tenant's. */
  readonly routeTableId: string | undefined;

  constructor(scope: Construct, id: string, props: NetworkProps) {
    super(scope, id);
    if (props.existing !== undefined) {
      this.vpcId = props.existing.vpcId;
      this.subnetIds = props.existing.subnetIds;
      return;
    }
    const vpc = new Vpc(this, "vpc", {
      cidrBlock: props.cidr,
      enableDnsSupport: true,
      enableDnsHostnames: true,
      tags: { Name: props.prefix },
    });
    this.vpcId = vpc.id;
    // A VPC's default group allows traffic between its members: its rules are removed.
    new DefaultSecurityGroup(this, "closed", { vpcId: vpc.id });
    const routes = new RouteTable(this, "routes", { vpcId: vpc.id, tags: { Name: props.prefix } });
    this.routeTableId = routes.id;
    this.subnetIds = props.zones.map((zone, index) => {
      const subnet = new Subnet(this, `subnet-${index}`, {
        vpcId: vpc.id,
        availabilityZone: zone,
        cidrBlock: Fn.cidrsubnet(props.cidr, SUBNET_BITS, index),
        mapPublicIpOnLaunch: false,
        tags: { Name: `${props.prefix}-${zone}` },
      });
      new RouteTableAssociation(this, `routed-${index}`, {
        subnetId: subnet.id,
        routeTableId: routes.id,
      });
      return subnet.id;
    });
  }
}
