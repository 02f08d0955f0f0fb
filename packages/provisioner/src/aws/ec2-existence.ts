import {
  DescribeRouteTablesCommand,
  DescribeSecurityGroupRulesCommand,
  DescribeSecurityGroupsCommand,
  DescribeSubnetsCommand,
  DescribeVolumesCommand,
  DescribeVpcEndpointServiceConfigurationsCommand,
  DescribeVpcsCommand,
  type EC2Client,
  paginateDescribeVpcEndpoints,
} from "@aws-sdk/client-ec2";

const LOOKED_AT = new Set(["vpc", "subnet", "rtb", "sg", "sgr", "vol", "vpce", "vpce-svc"]);

/**
 * Which of these EC2 resources exist. Tags outlive their resources, so a resource that is found by its tags may
 * be gone. Ids of other kinds are returned unchecked.
 */
export async function existingOfEc2(
  ec2: EC2Client,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  const of = (kind: string) => ids.filter((id) => kindOfId(id) === kind);
  const others = ids.filter((id) => !isLookedAt(id));
  const groups = of("sg");
  const lists = await Promise.all([
    look(of("vpc"), async (f) =>
      (await ec2.send(new DescribeVpcsCommand(f("vpc-id")))).Vpcs?.map((each) => each.VpcId),
    ),
    look(of("subnet"), async (f) =>
      (await ec2.send(new DescribeSubnetsCommand(f("subnet-id")))).Subnets?.map(
        (each) => each.SubnetId,
      ),
    ),
    look(of("rtb"), async (f) =>
      (await ec2.send(new DescribeRouteTablesCommand(f("route-table-id")))).RouteTables?.map(
        (each) => each.RouteTableId,
      ),
    ),
    look(groups, async (f) =>
      (await ec2.send(new DescribeSecurityGroupsCommand(f("group-id")))).SecurityGroups?.map(
        (each) => each.GroupId,
      ),
    ),
    // All rules of the cluster's groups: AWS has no query for rules that may be absent.
    look(groups, async (f) =>
      (
        await ec2.send(new DescribeSecurityGroupRulesCommand(f("group-id")))
      ).SecurityGroupRules?.map((each) => each.SecurityGroupRuleId),
    ),
    look(of("vol"), async (f) =>
      (await ec2.send(new DescribeVolumesCommand(f("volume-id")))).Volumes?.map(
        (each) => each.VolumeId,
      ),
    ),
    look(of("vpce"), async () => await endpoints(ec2)),
    look(of("vpce-svc"), async (f) =>
      (
        await ec2.send(new DescribeVpcEndpointServiceConfigurationsCommand(f("service-id")))
      ).ServiceConfigurations?.filter(({ ServiceState }) => !isGone(ServiceState)).map(
        (each) => each.ServiceId,
      ),
    ),
  ]);
  return new Set([...lists.flat(), ...others]);
}

/** The kind prefix of an id: `vpce` of `vpce-0a1b`, `vpce-svc` of `vpce-svc-0a1b`. */
export function kindOfId(id: string): string {
  return id.slice(0, id.lastIndexOf("-"));
}

/** Whether `existingOfEc2` can check such an id. */
export function isLookedAt(id: string): boolean {
  return LOOKED_AT.has(kindOfId(id));
}

function isGone(state: string | undefined): boolean {
  return /^delet/i.test(state ?? "");
}

/** All of the installation's: not every AWS-like service can filter endpoints by their ids. */
async function endpoints(ec2: EC2Client): Promise<string[]> {
  const found: string[] = [];
  const Filters = [{ Name: "tag-key", Values: ["millrace:cluster"] }];
  for await (const page of paginateDescribeVpcEndpoints({ client: ec2 }, { Filters })) {
    for (const { VpcEndpointId, State } of page.VpcEndpoints ?? []) {
      if (VpcEndpointId && !isGone(State)) found.push(VpcEndpointId);
    }
  }
  return found;
}

/** A filter accepts ids that are gone; a list of ids is rejected then. */
async function look(
  ids: readonly string[],
  ask: (filter: Filter) => Promise<readonly (string | undefined)[] | undefined>,
): Promise<string[]> {
  if (ids.length === 0) return [];
  const found = await ask((Name) => ({ Filters: [{ Name, Values: [...ids] }] }));
  return (found ?? []).filter((id) => id !== undefined);
}

type Filter = (name: string) => { Filters: { Name: string; Values: string[] }[] };
