import { Eip } from "@cdktn/provider-aws/lib/eip/index.js";
import { InternetGateway } from "@cdktn/provider-aws/lib/internet-gateway/index.js";
import { NatGateway } from "@cdktn/provider-aws/lib/nat-gateway/index.js";
import { Route } from "@cdktn/provider-aws/lib/route/index.js";
import { RouteTable } from "@cdktn/provider-aws/lib/route-table/index.js";
import { RouteTableAssociation } from "@cdktn/provider-aws/lib/route-table-association/index.js";
import { Subnet } from "@cdktn/provider-aws/lib/subnet/index.js";
import { Fn } from "cdktn";
import { Construct } from "constructs";

export interface InternetAccessProps {
  /** Begins the `Name` tags. */
  readonly prefix: string;
  readonly vpcId: string;
  /** Range of the VPC; its last quarter, which private subnets leave free, is used. */
  readonly cidr: string;
  readonly zones: readonly string[];
  /** Route tables of the private subnets, which get a route to the internet. */
  readonly privateRouteTableId: string;
}

const QUARTER_BITS = 2;
const LAST_QUARTER = 3;
const ANYWHERE = "0.0.0.0/0";

/**
 * Public subnets for a load balancer, and a route to the internet for private ones. The worker calls AWS in every
 * region that has clusters, which the endpoints of one region cannot serve. There is one NAT gateway: if its zone
 * fails, operations wait and tenants' brokers are not affected.
 */
export class InternetAccess extends Construct {
  readonly publicSubnetIds: readonly string[];

  constructor(scope: Construct, id: string, props: InternetAccessProps) {
    super(scope, id);
    const { prefix, vpcId } = props;
    const gateway = new InternetGateway(this, "gateway", { vpcId, tags: { Name: prefix } });
    const routes = new RouteTable(this, "routes", { vpcId, tags: { Name: `${prefix}-public` } });
    new Route(this, "out", {
      routeTableId: routes.id,
      destinationCidrBlock: ANYWHERE,
      gatewayId: gateway.id,
    });
    const quarter = Fn.cidrsubnet(props.cidr, QUARTER_BITS, LAST_QUARTER);
    this.publicSubnetIds = props.zones.map((zone, index) => {
      const subnet = new Subnet(this, `public-${index}`, {
        vpcId,
        availabilityZone: zone,
        cidrBlock: Fn.cidrsubnet(quarter, QUARTER_BITS, index),
        mapPublicIpOnLaunch: false,
        tags: { Name: `${prefix}-public-${zone}` },
      });
      new RouteTableAssociation(this, `routed-${index}`, {
        subnetId: subnet.id,
        routeTableId: routes.id,
      });
      return subnet.id;
    });
    const address = new Eip(this, "address", { domain: "vpc", dependsOn: [gateway] });
    const nat = new NatGateway(this, "nat", {
      allocationId: address.id,
      subnetId: this.publicSubnetIds[0] as string,
      tags: { Name: prefix },
      dependsOn: [gateway],
    });
    new Route(this, "private-out", {
      routeTableId: props.privateRouteTableId,
      destinationCidrBlock: ANYWHERE,
      natGatewayId: nat.id,
    });
  }
}
