/** Each gap of the emulator still exists: a closed one must leave the list. */
import { AutoScalingClient, CreateAutoScalingGroupCommand } from "@aws-sdk/client-auto-scaling";
import {
  AuthorizeSecurityGroupEgressCommand,
  AuthorizeSecurityGroupIngressCommand,
  CreateLaunchTemplateCommand,
  CreateLaunchTemplateVersionCommand,
  CreateSecurityGroupCommand,
  CreateSubnetCommand,
  CreateVpcCommand,
  DescribeLaunchTemplateVersionsCommand,
  DescribeSecurityGroupRulesCommand,
  EC2Client,
} from "@aws-sdk/client-ec2";
import {
  CreateLoadBalancerCommand,
  DescribeLoadBalancersCommand,
  ElasticLoadBalancingV2Client,
  SetSecurityGroupsCommand,
} from "@aws-sdk/client-elastic-load-balancing-v2";
import {
  CreateHostedZoneCommand,
  GetHostedZoneCommand,
  Route53Client,
} from "@aws-sdk/client-route-53";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EMULATOR_GAPS } from "../emulator-gaps.ts";
import { clientOptions, hasEmulator, type Moto, REGION, startMoto } from "../moto.ts";

describe.skipIf(!hasEmulator)("what the emulator cannot do", () => {
  let moto: Moto;
  let ec2: EC2Client;
  let vpcId: string;
  let groupId: string;
  const proven = new Set<string>();

  beforeAll(async () => {
    moto = await startMoto();
    ec2 = new EC2Client(clientOptions(moto.endpoint));
    const { Vpc } = await ec2.send(new CreateVpcCommand({ CidrBlock: "10.0.0.0/16" }));
    vpcId = Vpc?.VpcId ?? "";
    const group = { GroupName: "g", Description: "d", VpcId: vpcId };
    groupId = (await ec2.send(new CreateSecurityGroupCommand(group))).GroupId ?? "";
  }, 90_000);

  afterAll(async () => await moto?.stop());

  async function descriptionsOf(egress: boolean) {
    const Filters = [{ Name: "group-id", Values: [groupId] }];
    const command = new DescribeSecurityGroupRulesCommand({ Filters });
    const rules = (await ec2.send(command)).SecurityGroupRules ?? [];
    const wanted = rules.filter((rule) => rule.IsEgress === egress && rule.FromPort === 9092);
    expect(wanted).toHaveLength(1);
    return wanted.map((rule) => rule.Description || undefined);
  }

  test("the description of a rule about another group", async () => {
    const rule = {
      IpProtocol: "tcp",
      FromPort: 9092,
      ToPort: 9092,
      UserIdGroupPairs: [{ GroupId: groupId, Description: "Kafka" }],
    };
    const group = { GroupId: groupId, IpPermissions: [rule] };
    await ec2.send(new AuthorizeSecurityGroupIngressCommand(group));
    await ec2.send(new AuthorizeSecurityGroupEgressCommand(group));
    expect(await descriptionsOf(false)).toEqual([undefined]);
    proven.add("aws_vpc_security_group_ingress_rule.description");
    expect(await descriptionsOf(true)).toEqual([undefined]);
    proven.add("aws_vpc_security_group_egress_rule.description");
  });

  test("a launch template's own tags", async () => {
    const tags = [{ Key: "a", Value: "b" }];
    const made = await ec2.send(
      new CreateLaunchTemplateCommand({
        LaunchTemplateName: "t",
        LaunchTemplateData: { InstanceType: "t4g.medium" },
        TagSpecifications: [{ ResourceType: "launch-template", Tags: tags }],
      }),
    );
    const { LaunchTemplateVersions } = await ec2.send(
      new DescribeLaunchTemplateVersionsCommand({
        LaunchTemplateId: made.LaunchTemplate?.LaunchTemplateId,
      }),
    );
    const data = LaunchTemplateVersions?.[0]?.LaunchTemplateData;
    expect(data?.TagSpecifications?.[0]?.ResourceType).toBe("launch-template");
    proven.add("aws_launch_template.tags");
  });

  test("an instance of a template's second version, where that has user data", async () => {
    const LaunchTemplateName = "two";
    const LaunchTemplateData = {
      ImageId: "resolve:ssm:/aws/service/ami",
      InstanceType: "t4g.medium",
      UserData: "YQ==",
    } as const;
    await ec2.send(new CreateLaunchTemplateCommand({ LaunchTemplateName, LaunchTemplateData }));
    const next = { LaunchTemplateName, LaunchTemplateData };
    await ec2.send(new CreateLaunchTemplateVersionCommand(next));
    const groups = new AutoScalingClient({ ...clientOptions(moto.endpoint), maxAttempts: 1 });
    const start = new CreateAutoScalingGroupCommand({
      AutoScalingGroupName: "two",
      LaunchTemplate: { LaunchTemplateName, Version: "2" },
      AvailabilityZones: [`${REGION}a`],
      MinSize: 1,
      MaxSize: 1,
    });
    // So a cluster is paused and resumed there before its template changes, never after.
    await expect(groups.send(start)).rejects.toThrow();
  });

  test("a balancer's setting for PrivateLink", async () => {
    const elb = new ElasticLoadBalancingV2Client(clientOptions(moto.endpoint));
    const subnet = { VpcId: vpcId, CidrBlock: "10.0.1.0/24" };
    const { Subnet } = await ec2.send(new CreateSubnetCommand(subnet));
    const { LoadBalancers } = await elb.send(
      new CreateLoadBalancerCommand({
        Name: "b",
        Type: "network",
        Scheme: "internal",
        Subnets: [Subnet?.SubnetId ?? ""],
        SecurityGroups: [groupId],
      }),
    );
    const LoadBalancerArn = LoadBalancers?.[0]?.LoadBalancerArn;
    await elb.send(
      new SetSecurityGroupsCommand({
        LoadBalancerArn,
        SecurityGroups: [groupId],
        EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic: "off",
      }),
    );
    const seen = await elb.send(new DescribeLoadBalancersCommand({ Names: ["b"] }));
    const setting = seen.LoadBalancers?.[0]?.EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic;
    expect(setting).toBeUndefined();
    proven.add("aws_lb.enforce_security_group_inbound_rules_on_private_link_traffic");
  });

  /** A call of RDS, whose client the driver does not need: the answer's text. */
  async function rds(Action: string, parameters: Record<string, string>): Promise<string> {
    const response = await fetch(moto.endpoint, {
      method: "POST",
      headers: {
        authorization: `AWS4-HMAC-SHA256 Credential=t/20260101/${REGION}/rds/aws4_request, SignedHeaders=host, Signature=t`,
      },
      body: new URLSearchParams({ Action, Version: "2014-10-31", ...parameters }),
    });
    const text = await response.text();
    expect(response.status, text).toBe(200);
    return text;
  }

  test("a database's Performance Insights", async () => {
    const DBInstanceIdentifier = "d";
    await rds("CreateDBInstance", {
      ...{ DBInstanceIdentifier, DBInstanceClass: "db.t4g.small", Engine: "postgres" },
      ...{ AllocatedStorage: "20", MasterUsername: "m", MasterUserPassword: "password" },
      ...{ EnablePerformanceInsights: "true", PerformanceInsightsKMSKeyId: "arn:key" },
    });
    const seen = await rds("DescribeDBInstances", { DBInstanceIdentifier });
    expect(seen).toContain("db.t4g.small");
    expect(seen).not.toMatch(/<PerformanceInsightsEnabled>true|<PerformanceInsightsKMSKeyId>arn/);
    proven.add("aws_db_instance.performance_insights_enabled");
    proven.add("aws_db_instance.performance_insights_kms_key_id");
  });

  test("the parameters of a database's group", async () => {
    const DBParameterGroupName = "p";
    const family = { DBParameterGroupFamily: "postgres17", Description: "d" };
    await rds("CreateDBParameterGroup", { DBParameterGroupName, ...family });
    await rds("ModifyDBParameterGroup", {
      DBParameterGroupName,
      "Parameters.Parameter.1.ParameterName": "rds.force_ssl",
      "Parameters.Parameter.1.ParameterValue": "1",
      "Parameters.Parameter.1.ApplyMethod": "immediate",
    });
    const seen = await rds("DescribeDBParameters", { DBParameterGroupName, Source: "user" });
    expect(seen).toContain("rds.force_ssl");
    expect(seen).not.toContain("<Source>");
    proven.add("aws_db_parameter_group.parameter");
  });

  test("a private zone, and with it its records", async () => {
    const route53 = new Route53Client(clientOptions(moto.endpoint));
    const zone = {
      Name: "x.internal",
      CallerReference: "r",
      VPC: { VPCRegion: REGION, VPCId: vpcId },
    } as const;
    const { HostedZone } = await route53.send(new CreateHostedZoneCommand(zone));
    const seen = await route53.send(new GetHostedZoneCommand({ Id: HostedZone?.Id }));
    expect(seen.HostedZone?.Config?.PrivateZone).toBe(false);
    proven.add("aws_route53_zone");
    proven.add("aws_route53_record");
  });

  test("is what the list says, no more and no less", () => {
    expect(EMULATOR_GAPS.map((gap) => gap.without).sort()).toEqual([...proven].sort());
  });
});
