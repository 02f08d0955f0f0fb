import { EC2Client } from "@aws-sdk/client-ec2";
import { IAMClient } from "@aws-sdk/client-iam";
import { expect, test } from "vitest";
import { answering } from "../../test/answering.ts";
import type { AddedRule, Addition } from "../terraform/added-by-hand.ts";
import { takeBack } from "./take-back.ts";

type Command = { readonly constructor: { readonly name: string }; readonly input: unknown };

/** Two services that record requests, or reject all of them. */
function cloud(refusal?: string) {
  const told: [string, unknown][] = [];
  const answer = ({ constructor: { name }, input }: Command) => {
    if (refusal !== undefined) throw Object.assign(new Error(refusal), { name: refusal });
    told.push([name.replace(/Command$/, ""), input]);
    return {};
  };
  return {
    told,
    clients: { ec2: answering(EC2Client, answer), iam: answering(IAMClient, answer) },
  };
}

function rule(kind: AddedRule["kind"], peer: AddedRule["peer"]): Addition {
  const ports = { protocol: "tcp", from: 22, to: 23 };
  return { address: "aws_security_group.g", kind, groupId: "sg-1", ...ports, peer };
}

const INLINE: Addition = {
  ...{ address: "aws_iam_role.r", kind: "inline_policy" },
  ...{ role: "slot", policy: "theirs" },
};
const ARN = "arn:aws:iam::aws:policy/AdministratorAccess";

test("a rule is revoked by its content, for any kind of peer", async () => {
  const { told, clients } = cloud();
  const peers: [AddedRule["peer"], object][] = [
    [{ cidrIpv4: "0.0.0.0/0" }, { IpRanges: [{ CidrIp: "0.0.0.0/0" }] }],
    [{ cidrIpv6: "::/0" }, { Ipv6Ranges: [{ CidrIpv6: "::/0" }] }],
    [{ prefixListId: "pl-1" }, { PrefixListIds: [{ PrefixListId: "pl-1" }] }],
    [{ group: "sg-2" }, { UserIdGroupPairs: [{ GroupId: "sg-2" }] }],
    [
      { group: "111122223333/sg-2" },
      { UserIdGroupPairs: [{ GroupId: "sg-2", UserId: "111122223333" }] },
    ],
  ];
  const additions = peers.map(([peer]) => rule("ingress", peer));
  await takeBack(clients, [...additions, rule("egress", { cidrIpv4: "10.0.0.0/8" })], undefined);
  const ports = { IpProtocol: "tcp", FromPort: 22, ToPort: 23 };
  expect(told).toEqual([
    ...peers.map(([, peer]) => [
      "RevokeSecurityGroupIngress",
      { GroupId: "sg-1", IpPermissions: [{ ...ports, ...peer }] },
    ]),
    [
      "RevokeSecurityGroupEgress",
      { GroupId: "sg-1", IpPermissions: [{ ...ports, IpRanges: [{ CidrIp: "10.0.0.0/8" }] }] },
    ],
  ]);
});

test("an inline policy is deleted, an attached one is detached", async () => {
  const { told, clients } = cloud();
  const attached: Addition = { ...INLINE, kind: "managed_policy_arns", policy: ARN };
  await takeBack(clients, [INLINE, attached], undefined);
  expect(told).toEqual([
    ["DeleteRolePolicy", { RoleName: "slot", PolicyName: "theirs" }],
    ["DetachRolePolicy", { RoleName: "slot", PolicyArn: ARN }],
  ]);
});

test("a missing rule is not an error, other failures are, and an abort stops", async () => {
  const additions = [INLINE, rule("ingress", { cidrIpv4: "0.0.0.0/0" })];
  await takeBack(cloud("InvalidPermission.NotFound").clients, additions, undefined);
  await takeBack(cloud("NoSuchEntityException").clients, additions, undefined);
  const refused = takeBack(cloud("UnauthorizedOperation").clients, additions, undefined);
  await expect(refused).rejects.toThrow("UnauthorizedOperation");
  const { told, clients } = cloud();
  const aborted = takeBack(clients, additions, AbortSignal.abort());
  await expect(aborted).rejects.toMatchObject({ code: "aborted" });
  expect(told).toEqual([]);
});
