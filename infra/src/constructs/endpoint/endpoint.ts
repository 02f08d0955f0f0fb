import { Lb } from "@cdktn/provider-aws/lib/lb/index.js";
import { LbListener } from "@cdktn/provider-aws/lib/lb-listener/index.js";
import { LbTargetGroup } from "@cdktn/provider-aws/lib/lb-target-group/index.js";
import { Construct } from "constructs";

export interface EndpointProps {
  /** Name of the load balancer, and prefix of its target groups' names. At most 19 characters. */
  readonly prefix: string;
  readonly vpcId: string;
  /** One per zone. */
  readonly subnetIds: readonly string[];
  readonly securityGroupId: string;
}

export interface ListenerProps {
  /** Suffix of the target group's name; at most 12 characters. */
  readonly name: string;
  /** Where the load balancer listens. */
  readonly port: number;
  /** Where the broker listens. */
  readonly targetPort: number;
}

/** Seconds between checks, and how many in a row decide: a broker is out of turn after half a minute. */
const HEALTH_INTERVAL_SECONDS = 10;
const HEALTHY_CHECKS = 2;
const UNHEALTHY_CHECKS = 3;
/** A draining broker answers its accepted requests within this. */
const DRAIN_SECONDS = 60;
/**
 * A client keeps an idle connection for nine minutes by default (`connections.max.idle.ms`), longer than the
 * balancer by default (350 seconds), which forgets it without telling the client.
 */
const IDLE_SECONDS = 3_600;

/** The internal load balancer in front of a cluster's slots. */
export class Endpoint extends Construct {
  readonly balancer: Lb;
  readonly #props: EndpointProps;

  constructor(scope: Construct, id: string, props: EndpointProps) {
    super(scope, id);
    this.#props = props;
    this.balancer = new Lb(this, "balancer", {
      name: props.prefix,
      loadBalancerType: "network",
      internal: true,
      subnets: [...props.subnetIds],
      securityGroups: [props.securityGroupId],
      // Who connects through an endpoint service has an address of another network; the service's
      // list of principals decides about them.
      enforceSecurityGroupInboundRulesOnPrivateLinkTraffic: "off",
      // With fewer slots than zones a zone's address must reach the slot of another zone.
      enableCrossZoneLoadBalancing: true,
    });
  }

  /** Adds a listener; answers the target group that slots join. */
  listen(props: ListenerProps): LbTargetGroup {
    const group = new LbTargetGroup(this, `${props.name}-targets`, {
      name: `${this.#props.prefix}-${props.name}`,
      vpcId: this.#props.vpcId,
      port: props.targetPort,
      protocol: "TCP",
      targetType: "instance",
      // The brokers' group admits the balancer's group, so packets must come from the balancer.
      preserveClientIp: "false",
      deregistrationDelay: String(DRAIN_SECONDS),
      // A broker listens once it serves.
      healthCheck: {
        protocol: "TCP",
        interval: HEALTH_INTERVAL_SECONDS,
        healthyThreshold: HEALTHY_CHECKS,
        unhealthyThreshold: UNHEALTHY_CHECKS,
      },
    });
    new LbListener(this, `${props.name}-listener`, {
      loadBalancerArn: this.balancer.arn,
      port: props.port,
      protocol: "TCP",
      tcpIdleTimeoutSeconds: IDLE_SECONDS,
      defaultAction: [{ type: "forward", targetGroupArn: group.arn }],
    });
    return group;
  }
}
