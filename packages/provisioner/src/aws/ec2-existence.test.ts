import { EC2Client } from "@aws-sdk/client-ec2";
import { expect, test } from "vitest";
import { existingOfEc2 } from "./ec2-existence.ts";

/** One id of each kind that tags are found on. */
const IDS = [
  ...["vpc-0a", "subnet-0a", "rtb-0a", "sg-0a", "sgr-0a", "vol-0a", "vpce-0a", "vpce-svc-0a"],
  ...["igw-0a", "vpcfl-0a", "lt-0a"],
];

/** Answers with what exists of what is filtered for; endpoints are asked for all at once. */
function ec2With(existing: readonly string[]): EC2Client {
  const answer = (key: string, name: string, prefix: RegExp) => ({
    [key]: existing.filter((id) => prefix.test(id)).map((id) => ({ [name]: id })),
  });
  const send = async (command: { constructor: { name: string } }) => {
    switch (command.constructor.name) {
      case "DescribeVpcsCommand":
        return answer("Vpcs", "VpcId", /^vpc-/);
      case "DescribeSubnetsCommand":
        return answer("Subnets", "SubnetId", /^subnet-/);
      case "DescribeRouteTablesCommand":
        return answer("RouteTables", "RouteTableId", /^rtb-/);
      case "DescribeSecurityGroupsCommand":
        return answer("SecurityGroups", "GroupId", /^sg-/);
      case "DescribeSecurityGroupRulesCommand":
        return answer("SecurityGroupRules", "SecurityGroupRuleId", /^sgr-/);
      case "DescribeVolumesCommand":
        return answer("Volumes", "VolumeId", /^vol-/);
      case "DescribeVpcEndpointsCommand":
        return answer("VpcEndpoints", "VpcEndpointId", /^vpce-(?!svc-)/);
      case "DescribeVpcEndpointServiceConfigurationsCommand":
        return answer("ServiceConfigurations", "ServiceId", /^vpce-svc-/);
      default:
        throw new Error(`not expected: ${command.constructor.name}`);
    }
  };
  // The paginator asks for a client of this class.
  return Object.create(EC2Client.prototype, { send: { value: send } }) as EC2Client;
}

test("each kind of id that exists is found to exist", async () => {
  expect([...(await existingOfEc2(ec2With(IDS), IDS))].sort()).toEqual([...IDS].sort());
});

test.each(["vpc-0a", "subnet-0a", "rtb-0a", "sg-0a", "sgr-0a", "vol-0a", "vpce-0a", "vpce-svc-0a"])(
  "%s is gone where AWS does not know it",
  async (id) => {
    const others = IDS.filter((each) => each !== id);
    const existing = await existingOfEc2(ec2With(others), IDS);
    expect([...existing].sort()).toEqual([...others].sort());
  },
);
