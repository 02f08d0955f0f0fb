import { describe, expect, test } from "vitest";
import {
  reference,
  resource,
  snapshotText,
  stackOf,
  statements,
} from "../../../test/stack-fixture.ts";
import { AwsAccess } from "./aws-access.ts";
import { Firewall } from "./firewall.ts";
import { Network } from "./network.ts";

const ZONES = ["eu-central-1a", "eu-central-1b"];

function network(existing?: { vpcId: string; subnetIds: string[] }) {
  let made: Network | undefined;
  const stack = stackOf((scope) => {
    made = new Network(scope, "network", {
      ...{ prefix: "test", cidr: "10.40.0.0/16", zones: ZONES },
      ...(existing === undefined ? {} : { existing }),
    });
  });
  return { stack, made: made as Network };
}

describe("network", () => {
  test("is what the snapshot shows", async () => {
    await expect(snapshotText(network().stack)).toMatchFileSnapshot("network.snap");
  });

  test("has a private subnet in each zone and no way to the internet", () => {
    const { stack } = network();
    expect(Object.keys(stack.resource).sort()).toEqual([
      "aws_default_security_group",
      "aws_route_table",
      "aws_route_table_association",
      "aws_subnet",
      "aws_vpc",
    ]);
    const subnets = Object.values(stack.resource.aws_subnet ?? {});
    expect(subnets.map((subnet) => subnet.availability_zone)).toEqual(ZONES);
    expect(subnets.every((subnet) => subnet.map_public_ip_on_launch === false)).toBe(true);
    expect(resource(stack, "aws_route_table")).not.toHaveProperty("route");
  });

  test("the group that a VPC comes with admits nothing", () => {
    const group = resource(network().stack, "aws_default_security_group");
    expect(group).not.toHaveProperty("ingress");
    expect(group).not.toHaveProperty("egress");
  });

  test("of the tenant's is taken as it is", () => {
    const { stack, made } = network({ vpcId: "vpc-1", subnetIds: ["subnet-1", "subnet-2"] });
    expect(stack.resource).toBeUndefined();
    expect([made.vpcId, made.subnetIds, made.routeTableId]).toEqual([
      "vpc-1",
      ["subnet-1", "subnet-2"],
      undefined,
    ]);
  });
});

test("ways to AWS let named calls of the account through", () => {
  const stack = stackOf((scope) => {
    new AwsAccess(scope, "access", {
      ...{ prefix: "test", accountId: "111122223333", region: "eu-central-1", vpcId: "vpc-1" },
      ...{ routeTableId: "rtb-1", subnetIds: ["subnet-1"], securityGroupId: "sg-1" },
      actions: { logs: ["logs:PutLogEvents"] },
      s3: [
        {
          ...{ Sid: "Bucket", Effect: "Allow", Principal: "*" },
          ...{ Action: ["s3:GetObject"], Resource: ["arn:aws:s3:::bucket/*"] },
        },
      ],
    });
  });
  const logs = resource(stack, "aws_vpc_endpoint", "access_logs");
  expect(logs).toMatchObject({
    service_name: "com.amazonaws.eu-central-1.logs",
    vpc_endpoint_type: "Interface",
    private_dns_enabled: true,
    subnet_ids: ["subnet-1"],
  });
  expect(statements(logs)).toEqual([
    {
      ...{ Sid: "Account", Effect: "Allow", Principal: "*" },
      ...{ Action: ["logs:PutLogEvents"], Resource: ["*"] },
      Condition: { StringEquals: { "aws:PrincipalAccount": "111122223333" } },
    },
  ]);
  const s3 = resource(stack, "aws_vpc_endpoint", "access_s3");
  expect(s3).toMatchObject({ vpc_endpoint_type: "Gateway", route_table_ids: ["rtb-1"] });
  expect(statements(s3)[0]?.Resource).toEqual(["arn:aws:s3:::bucket/*"]);
});

test("a firewall begins closed and names whom it admits", () => {
  const stack = stackOf((scope) => {
    const one = new Firewall(scope, "one", { name: "one", description: "One", vpcId: "vpc-1" });
    const other = new Firewall(scope, "other", { name: "other", description: "O", vpcId: "vpc-1" });
    one.admit("other", "From the other", { from: 1, to: 2 }, { group: other });
    one.admit("range", "From a range", { from: 3, to: 3 }, { cidr: "10.0.0.0/8" });
    one.release("s3", "To S3", { from: 443, to: 443 }, { prefixListId: "pl-1" });
  });
  for (const group of Object.values(stack.resource.aws_security_group ?? {})) {
    expect(group).not.toHaveProperty("ingress");
    expect(group).not.toHaveProperty("egress");
  }
  const own = { security_group_id: reference("aws_security_group.one_group.id") };
  const rule = (type: string, name: string) => resource(stack, type, name);
  expect(rule("aws_vpc_security_group_ingress_rule", "one_in-other")).toMatchObject({
    ...own,
    ...{ from_port: 1, to_port: 2, ip_protocol: "tcp" },
    referenced_security_group_id: reference("aws_security_group.other_group.id"),
  });
  expect(rule("aws_vpc_security_group_ingress_rule", "one_in-range")).toMatchObject({
    ...own,
    ...{ from_port: 3, to_port: 3, cidr_ipv4: "10.0.0.0/8" },
  });
  expect(rule("aws_vpc_security_group_egress_rule", "one_out-s3")).toMatchObject({
    ...own,
    prefix_list_id: "pl-1",
  });
});
