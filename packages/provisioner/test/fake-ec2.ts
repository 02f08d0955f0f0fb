/** A few EC2 resources in memory, for tests of requests and the use of their answers. */
import { EC2Client } from "@aws-sdk/client-ec2";
import { answering } from "./answering.ts";

export interface FakeResource {
  readonly id: string;
  readonly address: string;
  /** Volumes only. */
  readonly state?: "in-use" | "available";
  readonly made?: Date;
  /** Rules only. */
  readonly egress?: boolean;
  /** Endpoint services only: who is connected. */
  readonly connected?: readonly string[];
  /** Error code of its deletion. */
  readonly held?: string;
}

type Command = { readonly constructor: { readonly name: string }; readonly input: Input };
interface Input {
  readonly Filters?: readonly { Name: string; Values: string[] }[];
  readonly [key: string]: unknown;
}

const LISTS: Record<string, readonly [list: string, id: string, prefix: RegExp]> = {
  DescribeVpcsCommand: ["Vpcs", "VpcId", /^vpc-/],
  DescribeSubnetsCommand: ["Subnets", "SubnetId", /^subnet-/],
  DescribeRouteTablesCommand: ["RouteTables", "RouteTableId", /^rtb-/],
  DescribeSecurityGroupsCommand: ["SecurityGroups", "GroupId", /^sg-/],
  DescribeSecurityGroupRulesCommand: ["SecurityGroupRules", "SecurityGroupRuleId", /^sgr-/],
  DescribeVolumesCommand: ["Volumes", "VolumeId", /^vol-/],
  DescribeVpcEndpointsCommand: ["VpcEndpoints", "VpcEndpointId", /^vpce-(?!svc-)/],
  DescribeVpcEndpointServiceConfigurationsCommand: [
    "ServiceConfigurations",
    "ServiceId",
    /^vpce-svc-/,
  ],
};

export class FakeEc2 {
  readonly resources: FakeResource[];
  /** Every change, as `<command> <id>`. */
  readonly changes: string[] = [];
  readonly client: EC2Client;
  /** What new volumes are encrypted with by default. */
  defaultKey = "alias/aws/ebs";
  /** Called before each query of tags. */
  onLook: () => void = () => {};

  constructor(resources: readonly FakeResource[]) {
    this.resources = [...resources];
    this.client = answering(EC2Client, (command: Command) => this.#answer(command));
  }

  #answer({ constructor: { name }, input }: Command): unknown {
    if (name === "DescribeTagsCommand") return this.#tags(input);
    if (name === "DescribeVpcEndpointConnectionsCommand") return this.#connections(input);
    if (name === "DescribeLaunchTemplatesCommand") return {};
    if (name === "GetEbsDefaultKmsKeyIdCommand") return { KmsKeyId: this.defaultKey };
    const list = LISTS[name];
    if (list !== undefined) return this.#list(list, input);
    const [id] = idsIn(input);
    if (id === undefined) throw new Error(`not expected: ${name}`);
    const held = this.resources.find((each) => each.id === id)?.held;
    // These two always return success.
    if (held !== undefined && /^DeleteVpcEndpoint/.test(name)) {
      return { Unsuccessful: [{ ResourceId: id, Error: { Code: held, Message: "no" } }] };
    }
    if (held !== undefined) throw Object.assign(new Error(held), { name: held });
    this.changes.push(`${name.replace(/Command$/, "")} ${id}`);
    if (/^(Delete|Revoke)/.test(name)) {
      const at = this.resources.findIndex((each) => each.id === id);
      if (at >= 0) this.resources.splice(at, 1);
    }
    return {};
  }

  #tags({ Filters = [] }: Input): unknown {
    this.onLook();
    const ids = Filters.find(({ Name }) => Name === "resource-id")?.Values;
    const Tags = this.resources
      .filter(({ id }) => ids === undefined || ids.includes(id))
      .map(({ id, address }) => ({ ResourceId: id, Value: address }));
    return { Tags };
  }

  #list([list, name, prefix]: (typeof LISTS)[string], { Filters = [], ...input }: Input): unknown {
    const asked = [...Filters.flatMap(({ Values }) => Values), ...idsIn(input)];
    const found = this.resources.filter(({ id }) => {
      // Rules are asked for by their groups, endpoints by a tag: all that there are.
      const byItself = asked.some((value) => prefix.test(value));
      return prefix.test(id) && (!byItself || asked.includes(id));
    });
    return {
      [list]: found.map(({ id, state, made, egress }) => ({
        [name]: id,
        ...(list === "Volumes" ? { State: state, CreateTime: made } : {}),
        ...(list === "SecurityGroupRules" ? { GroupId: "sg-0", IsEgress: egress === true } : {}),
      })),
    };
  }

  #connections({ Filters = [] }: Input): unknown {
    const ids = Filters.flatMap(({ Values }) => Values);
    const services = this.resources.filter(({ id }) => ids.includes(id));
    return {
      VpcEndpointConnections: services.flatMap(({ id, connected = [] }) =>
        connected.map((entry) => {
          const [VpcEndpointId, VpcEndpointState = "available"] = entry.split(":");
          return { ServiceId: id, VpcEndpointId, VpcEndpointState };
        }),
      ),
    };
  }
}

/** The ids in a command's input, whatever its field is called; the most specific first. */
function idsIn(input: object): string[] {
  const values = Object.entries(input).filter(([key]) => /Ids?$/.test(key) && key !== "GroupId");
  const ids =
    values.length > 0 ? values : Object.entries(input).filter(([key]) => key === "GroupId");
  return ids.flatMap(([, value]) => (Array.isArray(value) ? value.map(String) : [String(value)]));
}
