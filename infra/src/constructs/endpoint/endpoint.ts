import { Lb } from "@cdktn/provider-aws/lib/lb/index.js";
import { LbListener } from "@cdktn/provider-aws/lib/lb-listener/index.js";
import { LbTargetGroup } from "@cdktn/provider-aws/lib/lb-target-group/index.js";
import { Construct } from "constructs";

export interface EndpointProps {
  readonly prefix: string;
  readonly vpcId: string;
  readonly subnetIds: readonly string[];
  readonly securityGroupId: string;
}

export interface ListenerProps {
  /** Ends the target group's name. */
  readonly name: string;
  /** Where the load balancer listens. */
  readonly port: number;
  /** Where the broker listens. */
  readonly targetPort: number;
  /** Port of the broker's admin HTTP, whose `/readyz` tells whether it serves. */
  readonly healthPort: number;
}

/** The internal load balancer in front of a cluster's slots. */
export class Endpoint extends Construct {
  readonly #balancer: Lb;
  readonly #props: EndpointProps;

  constructor(scope: Construct, id: string, props: EndpointProps) {
    super(scope, id);
    this.#props = props;
    this.#balancer = new Lb(this, "balancer", {
      name: props.prefix,
      loadBalancerType: "network",
      internal: true,
      subnets: [...props.subnetIds],
      securityGroups: [props.securityGroupId],
      // With fewer slots than zones a zone's address must reach the slot of another zone.
      enableCrossZoneLoadBalancing: true,
    });
  }

  /** Adds a listener; answers the ARN of the target group that slots join. */
  listen(props: ListenerProps): string {
    const group = new LbTargetGroup(this, `${props.name}-targets`, {
      name: `${this.#props.prefix}-${props.name}`,
      vpcId: this.#props.vpcId,
      port: props.targetPort,
      protocol: "TCP",
      targetType: "instance",
      preserveClientIp: "false",
      deregistrationDelay: "60",
      healthCheck: {
        protocol: "HTTP",
        port: `${props.healthPort}`,
        path: "/readyz",
        interval: 10,
        healthyThreshold: 2,
        unhealthyThreshold: 3,
      },
    });
    new LbListener(this, `${props.name}-listener`, {
      loadBalancerArn: this.#balancer.arn,
      port: props.port,
      protocol: "TCP",
      defaultAction: [{ type: "forward", targetGroupArn: group.arn }],
    });
    return group.arn;
  }
}
