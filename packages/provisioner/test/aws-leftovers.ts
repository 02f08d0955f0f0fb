/** A scan for everything of a cluster, independent of the driver's own: by tags, and by names. */
import { AutoScalingClient, DescribeAutoScalingGroupsCommand } from "@aws-sdk/client-auto-scaling";
import {
  DescribeInstancesCommand,
  DescribeLaunchTemplatesCommand,
  DescribeRouteTablesCommand,
  DescribeSecurityGroupsCommand,
  DescribeSubnetsCommand,
  DescribeVolumesCommand,
  DescribeVpcEndpointsCommand,
  DescribeVpcsCommand,
  EC2Client,
} from "@aws-sdk/client-ec2";
import {
  DescribeLoadBalancersCommand,
  DescribeTargetGroupsCommand,
  ElasticLoadBalancingV2Client,
} from "@aws-sdk/client-elastic-load-balancing-v2";
import { ListInstanceProfilesCommand, ListRolesCommand } from "@aws-sdk/client-iam";
import { DescribeKeyCommand, KMSClient, ListAliasesCommand } from "@aws-sdk/client-kms";
import { GetResourcesCommand } from "@aws-sdk/client-resource-groups-tagging-api";
import { ListSecretsCommand, SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import { clusterPrefix } from "@millrace/infra";
import { clientOptions, iamClient, taggingClient } from "./moto.ts";

/** Ids of all that exists of the cluster; keys that wait for their deletion are gone. */
export async function leftOf(endpoint: string, clusterId: string): Promise<string[]> {
  const prefix = clusterPrefix(clusterId);
  const lists = await Promise.all([
    tagged(endpoint, clusterId),
    taggedOfEc2(endpoint, clusterId),
    named(endpoint, prefix),
  ]);
  return [...new Set(lists.flat())].sort();
}

async function tagged(endpoint: string, clusterId: string): Promise<string[]> {
  const command = new GetResourcesCommand({
    TagFilters: [{ Key: "millrace:cluster", Values: [clusterId] }],
  });
  const { ResourceTagMappingList } = await taggingClient(endpoint).send(command);
  const arns = (ResourceTagMappingList ?? []).map((each) => each.ResourceARN ?? "");
  const kms = new KMSClient(clientOptions(endpoint));
  const alive = await Promise.all(
    arns.map(async (arn) => {
      if (arn.includes(":instance/")) return false;
      if (!arn.includes(":kms:")) return true;
      const { KeyMetadata } = await kms.send(new DescribeKeyCommand({ KeyId: arn }));
      return KeyMetadata?.KeyState !== "PendingDeletion";
    }),
  );
  return arns.filter((_, index) => alive[index]);
}

/** Each kind by itself: the emulator's list of tags has those of what is gone, too. */
async function taggedOfEc2(endpoint: string, clusterId: string): Promise<string[]> {
  const ec2 = new EC2Client(clientOptions(endpoint));
  const ours = { Filters: [{ Name: "tag:millrace:cluster", Values: [clusterId] }] };
  const [vpcs, subnets, tables, groups, volumes, endpoints, templates, reservations] =
    await Promise.all([
      ec2.send(new DescribeVpcsCommand(ours)),
      ec2.send(new DescribeSubnetsCommand(ours)),
      ec2.send(new DescribeRouteTablesCommand(ours)),
      ec2.send(new DescribeSecurityGroupsCommand(ours)),
      ec2.send(new DescribeVolumesCommand(ours)),
      ec2.send(new DescribeVpcEndpointsCommand(ours)),
      ec2.send(new DescribeLaunchTemplatesCommand({})),
      ec2.send(new DescribeInstancesCommand(ours)),
    ]);
  const instances = (reservations.Reservations ?? []).flatMap((each) => each.Instances ?? []);
  const ids = [
    ...(vpcs.Vpcs ?? []).map((each) => each.VpcId),
    ...(subnets.Subnets ?? []).map((each) => each.SubnetId),
    ...(tables.RouteTables ?? []).map((each) => each.RouteTableId),
    ...(groups.SecurityGroups ?? []).map((each) => each.GroupId),
    ...(volumes.Volumes ?? []).map((each) => each.VolumeId),
    ...(endpoints.VpcEndpoints ?? []).flatMap((each) =>
      /^deleted$/i.test(each.State ?? "") ? [] : [each.VpcEndpointId],
    ),
    ...(templates.LaunchTemplates ?? []).flatMap((each) =>
      each.LaunchTemplateName?.startsWith(clusterPrefix(clusterId)) ? [each.LaunchTemplateId] : [],
    ),
    ...instances.flatMap((each) => (each.State?.Name === "terminated" ? [] : [each.InstanceId])),
  ];
  return ids.filter((id) => id !== undefined);
}

async function named(endpoint: string, prefix: string): Promise<string[]> {
  const options = clientOptions(endpoint);
  const [groups, balancers, targets, roles, profiles, secrets, aliases] = await Promise.all([
    new AutoScalingClient(options).send(new DescribeAutoScalingGroupsCommand({})),
    new ElasticLoadBalancingV2Client(options).send(new DescribeLoadBalancersCommand({})),
    new ElasticLoadBalancingV2Client(options).send(new DescribeTargetGroupsCommand({})),
    iamClient(endpoint).send(new ListRolesCommand({})),
    iamClient(endpoint).send(new ListInstanceProfilesCommand({})),
    new SecretsManagerClient(options).send(new ListSecretsCommand({})),
    new KMSClient(options).send(new ListAliasesCommand({})),
  ]);
  const names = [
    ...(groups.AutoScalingGroups ?? []).map((each) => each.AutoScalingGroupName),
    ...(balancers.LoadBalancers ?? []).map((each) => each.LoadBalancerName),
    ...(targets.TargetGroups ?? []).map((each) => each.TargetGroupName),
    ...(roles.Roles ?? []).map((each) => each.RoleName),
    ...(profiles.InstanceProfiles ?? []).map((each) => each.InstanceProfileName),
    ...(secrets.SecretList ?? []).map((each) => each.Name),
    ...(aliases.Aliases ?? []).map((each) => each.AliasName?.replace("alias/", "")),
  ];
  return names.flatMap((name) => (name?.startsWith(prefix) ? [name] : []));
}
