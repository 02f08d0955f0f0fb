/** Removes rules and policies that were added by hand to a stack's security groups and roles. */
import {
  type IpPermission,
  RevokeSecurityGroupEgressCommand,
  RevokeSecurityGroupIngressCommand,
} from "@aws-sdk/client-ec2";
import { DeleteRolePolicyCommand, DetachRolePolicyCommand } from "@aws-sdk/client-iam";
import { ProvisionError } from "../cluster-driver.ts";
import type { AddedRule, Addition } from "../terraform/added-by-hand.ts";
import type { AwsClients } from "./aws-account.ts";

/** It was removed by hand, or its group or role is gone. */
const GONE = /NotFound|NoSuchEntity/;

/** Throws `ProvisionError` `aborted`. What is gone already is not an error. */
export async function takeBack(
  clients: Pick<AwsClients, "ec2" | "iam">,
  additions: readonly Addition[],
  signal: AbortSignal | undefined,
): Promise<void> {
  for (const addition of additions) {
    if (signal?.aborted) {
      throw new ProvisionError("aborted", "removing what was added by hand was aborted");
    }
    try {
      await remove(clients, addition);
    } catch (error) {
      if (!(error instanceof Error) || !GONE.test(error.name)) throw error;
    }
  }
}

async function remove({ ec2, iam }: Pick<AwsClients, "ec2" | "iam">, addition: Addition) {
  switch (addition.kind) {
    case "ingress":
      return await ec2.send(new RevokeSecurityGroupIngressCommand(revocation(addition)));
    case "egress":
      return await ec2.send(new RevokeSecurityGroupEgressCommand(revocation(addition)));
    case "inline_policy": {
      const { role: RoleName, policy: PolicyName } = addition;
      return await iam.send(new DeleteRolePolicyCommand({ RoleName, PolicyName }));
    }
    case "managed_policy_arns": {
      const { role: RoleName, policy: PolicyArn } = addition;
      return await iam.send(new DetachRolePolicyCommand({ RoleName, PolicyArn }));
    }
  }
}

/** By the rule's content: a plan has no ids of rules that are not in the stack. */
function revocation({ groupId, protocol, from, to, peer }: AddedRule) {
  const ports = { IpProtocol: protocol, FromPort: from, ToPort: to };
  return { GroupId: groupId, IpPermissions: [{ ...ports, ...peerOf(peer) }] };
}

function peerOf(peer: AddedRule["peer"]): IpPermission {
  if ("cidrIpv4" in peer) return { IpRanges: [{ CidrIp: peer.cidrIpv4 }] };
  if ("cidrIpv6" in peer) return { Ipv6Ranges: [{ CidrIpv6: peer.cidrIpv6 }] };
  if ("prefixListId" in peer) return { PrefixListIds: [{ PrefixListId: peer.prefixListId }] };
  const [GroupId, UserId] = peer.group.split("/").reverse();
  return { UserIdGroupPairs: [{ GroupId, ...(UserId === undefined ? {} : { UserId }) }] };
}
