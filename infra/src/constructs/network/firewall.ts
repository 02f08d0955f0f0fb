import { SecurityGroup } from "@cdktn/provider-aws/lib/security-group/index.js";
import { VpcSecurityGroupEgressRule } from "@cdktn/provider-aws/lib/vpc-security-group-egress-rule/index.js";
import { VpcSecurityGroupIngressRule } from "@cdktn/provider-aws/lib/vpc-security-group-ingress-rule/index.js";
import { Construct } from "constructs";

/** The peer of a rule: a group, a range of addresses or one of AWS's prefix lists. */
export type Peer =
  | { readonly group: Firewall }
  | { readonly cidr: string }
  | { readonly prefixListId: string };

export interface PortRange {
  readonly from: number;
  readonly to: number;
}

export interface FirewallProps {
  readonly name: string;
  readonly description: string;
  readonly vpcId: string;
}

function peerAttributes(peer: Peer) {
  if ("group" in peer) return { referencedSecurityGroupId: peer.group.id };
  return "cidr" in peer ? { cidrIpv4: peer.cidr } : { prefixListId: peer.prefixListId };
}

/** A security group that starts closed in both directions; each rule is a resource of its own. */
export class Firewall extends Construct {
  readonly id: string;

  constructor(scope: Construct, id: string, props: FirewallProps) {
    super(scope, id);
    const group = new SecurityGroup(this, "group", {
      name: props.name,
      description: props.description,
      vpcId: props.vpcId,
      tags: { Name: props.name },
    });
    this.id = group.id;
  }

  /** Allows inbound TCP. `id` names the rule within the group, `description` says what it is for. */
  admit(id: string, description: string, ports: PortRange, peer: Peer): void {
    new VpcSecurityGroupIngressRule(this, `in-${id}`, {
      securityGroupId: this.id,
      ipProtocol: "tcp",
      fromPort: ports.from,
      toPort: ports.to,
      description,
      ...peerAttributes(peer),
    });
  }

  /** Allows outbound TCP. */
  release(id: string, description: string, ports: PortRange, peer: Peer): void {
    new VpcSecurityGroupEgressRule(this, `out-${id}`, {
      securityGroupId: this.id,
      ipProtocol: "tcp",
      fromPort: ports.from,
      toPort: ports.to,
      description,
      ...peerAttributes(peer),
    });
  }
}
