import { VpcEndpointService } from "@cdktn/provider-aws/lib/vpc-endpoint-service/index.js";
import { Construct } from "constructs";

export interface PrivateLinkProps {
  readonly name: string;
  readonly balancerArn: string;
  /** ARNs of the accounts, users or roles that may connect. */
  readonly allowedPrincipals: readonly string[];
}

/** Lets named accounts reach the load balancer from their own networks. */
export class PrivateLink extends Construct {
  readonly serviceName: string;

  constructor(scope: Construct, id: string, props: PrivateLinkProps) {
    super(scope, id);
    const service = new VpcEndpointService(this, "service", {
      networkLoadBalancerArns: [props.balancerArn],
      // The tenant listed who may connect; approving each connection again would add nothing.
      acceptanceRequired: false,
      allowedPrincipals: [...props.allowedPrincipals],
      tags: { Name: props.name },
    });
    this.serviceName = service.serviceName;
  }
}
