import { Lb } from "@cdktn/provider-aws/lib/lb/index.js";
import { LbListener } from "@cdktn/provider-aws/lib/lb-listener/index.js";
import { LbTargetGroup } from "@cdktn/provider-aws/lib/lb-target-group/index.js";
import { Construct } from "constructs";
import { PrivateLink } from "../endpoint/private-link.ts";
import { Firewall } from "../network/firewall.ts";

export interface LinkDoorProps {
  /** Of the balancer and its target group. At most 32 characters. */
  readonly name: string;
  readonly vpcId: string;
  readonly subnetIds: readonly string[];
  readonly certificateArn: string;
  /** Where the gateways' tasks take links. */
  readonly port: number;
  /** Accounts whose networks may have an endpoint. */
  readonly allowedPrincipals: readonly string[];
}

const TLS = { from: 443, to: 443 };
/** TLS 1.2 and 1.3 with forward secrecy only. */
const TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06";
const HEALTH_INTERVAL_SECONDS = 10;
const CHECKS = 2;
/** A gateway that ends closes its links itself; their brokers connect to the other one. */
const DRAIN_SECONDS = 30;

/**
 * Where brokers connect to the gateways: only through endpoints in their own networks. The balancer ends TLS, because
 * the key of its certificate cannot be exported to the tasks.
 */
export class LinkDoor extends Construct {
  readonly firewall: Firewall;
  readonly targetGroupArn: string;
  /** What endpoints name. */
  readonly serviceName: string;

  constructor(scope: Construct, id: string, props: LinkDoorProps) {
    super(scope, id);
    this.firewall = new Firewall(this, "firewall", {
      name: props.name,
      description: "Gateways as brokers reach them",
      vpcId: props.vpcId,
    });
    const balancer = new Lb(this, "balancer", {
      name: props.name,
      loadBalancerType: "network",
      internal: true,
      subnets: [...props.subnetIds],
      securityGroups: [this.firewall.id],
      // Brokers come from other networks: the service's list of principals decides about them. Nobody in this network
      // is admitted.
      enforceSecurityGroupInboundRulesOnPrivateLinkTraffic: "off",
      // With fewer gateways than zones a zone's address must reach the gateway of another zone.
      enableCrossZoneLoadBalancing: true,
      enableDeletionProtection: true,
    });
    const group = new LbTargetGroup(this, "targets", {
      name: props.name,
      vpcId: props.vpcId,
      port: props.port,
      protocol: "TCP",
      targetType: "ip",
      // The gateways' group admits the balancer's group, so packets must come from the balancer.
      preserveClientIp: "false",
      deregistrationDelay: String(DRAIN_SECONDS),
      // A gateway that ends stops listening first.
      healthCheck: {
        protocol: "TCP",
        interval: HEALTH_INTERVAL_SECONDS,
        healthyThreshold: CHECKS,
        unhealthyThreshold: CHECKS,
      },
    });
    // An idle link is closed after 350 seconds, which cannot be changed for TLS: both ends are heard from each few seconds.
    new LbListener(this, "listener", {
      loadBalancerArn: balancer.arn,
      port: TLS.from,
      protocol: "TLS",
      sslPolicy: TLS_POLICY,
      certificateArn: props.certificateArn,
      defaultAction: [{ type: "forward", targetGroupArn: group.arn }],
    });
    this.targetGroupArn = group.arn;
    this.serviceName = new PrivateLink(this, "service", {
      name: props.name,
      balancerArn: balancer.arn,
      allowedPrincipals: props.allowedPrincipals,
    }).serviceName;
  }
}
