/**
 * Finds resources of a stack that exist but are missing from its state, for example because Terraform was
 * killed right after creating them: by the tag that holds a resource's address, by its name if AWS requires
 * a unique one, or by the resources that it connects.
 *
 * Resources that can be created twice without harm are not searched for: settings of a bucket, alarms, inline
 * policies and DNS records are put, not created.
 */
import { DescribeAutoScalingGroupsCommand } from "@aws-sdk/client-auto-scaling";
import { DescribeLogGroupsCommand } from "@aws-sdk/client-cloudwatch-logs";
import {
  DescribeLaunchTemplatesCommand,
  DescribeRouteTablesCommand,
  DescribeVolumesCommand,
  paginateDescribeTags,
  type Volume,
} from "@aws-sdk/client-ec2";
import {
  DescribeListenersCommand,
  DescribeLoadBalancersCommand,
  DescribeTargetGroupsCommand,
} from "@aws-sdk/client-elastic-load-balancing-v2";
import { GetInstanceProfileCommand, GetRoleCommand } from "@aws-sdk/client-iam";
import { DescribeKeyCommand, paginateListAliases } from "@aws-sdk/client-kms";
import { paginateGetResources } from "@aws-sdk/client-resource-groups-tagging-api";
import { ListHostedZonesByNameCommand } from "@aws-sdk/client-route-53";
import { HeadBucketCommand } from "@aws-sdk/client-s3";
import { DescribeSecretCommand } from "@aws-sdk/client-secrets-manager";
import { ADDRESS_TAG } from "@millrace/infra";
import type { SweptResource } from "../change-plan.ts";
import type { AwsClients } from "./aws-account.ts";
import { existingOfEc2, isLookedAt } from "./ec2-existence.ts";

/** A resource of a stack. */
export interface WantedResource {
  readonly address: string;
  readonly type: string;
  /** Its attributes as the stack has them; references are Terraform's `${…}`. */
  readonly attributes: Readonly<Record<string, unknown>>;
}

/** A resource that a state holds. */
export interface RecordedResource {
  readonly address: string;
  readonly id: string;
}

/** Ids by which Terraform imports what was found, by address. */
type Located = Map<string, string>;

export interface Survey {
  readonly located: ReadonlyMap<string, string>;
  /**
   * Existing resources with the cluster's tag that are neither in the state nor in the stack: a duplicate of an
   * address, or one whose address the stack no longer has.
   */
  readonly strays: readonly SweptResource[];
}

interface TaggedResource extends RecordedResource {
  /** Whether its existence was checked, rather than taken from its tags. */
  readonly isLooked: boolean;
}

const CLUSTER_TAG = "millrace:cluster";
/** Created, and deleted, by an Auto Scaling group. */
const OF_A_GROUP = /^(i|eni)-/;
/** EC2's limit on the values of one filter. */
const FILTER_VALUES_MAX = 200;
const NOT_THERE =
  /NotFound|NoSuchEntity|NoSuchBucket|ResourceNotFoundException|^404$|InvalidRouteTableID/;

/** The resources of `cdk.tf.json`. */
export function resourcesOf(stackText: string): WantedResource[] {
  const { resource } = JSON.parse(stackText) as {
    resource?: Record<string, Record<string, Record<string, unknown>>>;
  };
  return Object.entries(resource ?? {}).flatMap(([type, byName]) =>
    Object.entries(byName).map(([name, attributes]) => ({
      address: `${type}.${name}`,
      type,
      attributes,
    })),
  );
}

export class AwsInventory {
  readonly #clients: AwsClients;
  readonly #clusterId: string;

  constructor(clients: AwsClients, clusterId: string) {
    this.#clients = clients;
    this.#clusterId = clusterId;
  }

  /** Existing resources of the stack `whole` that are not `recorded`, and strays beside it. */
  async survey(
    whole: readonly WantedResource[],
    recorded: readonly RecordedResource[],
  ): Promise<Survey> {
    const known = new Map(recorded.map(({ address, id }) => [address, id]));
    const ids = new Set(recorded.map(({ id }) => id));
    const missing = whole.filter(({ address }) => !known.has(address));
    const tagged = (await this.#tagged()).filter(({ id }) => !ids.has(id));
    const located = await this.#chosen(missing, tagged);
    for (const resource of missing) {
      if (located.has(resource.address)) continue;
      const id = await orUndefined(() => this.#named(resource));
      if (id !== undefined) located.set(resource.address, id);
    }
    const all = new Map([...known, ...located]);
    for (const resource of missing) {
      const id = await orUndefined(() => this.#connecting(resource, all));
      if (id !== undefined) located.set(resource.address, id);
    }
    const taken = new Set(located.values());
    const strays = tagged.filter(({ id, isLooked }) => isLooked && !taken.has(id));
    return { located, strays: strays.map(({ id, address }) => ({ id, address })) };
  }

  /** One tagged resource per address; of several volumes the attached one, or the oldest. */
  async #chosen(
    missing: readonly WantedResource[],
    tagged: readonly TaggedResource[],
  ): Promise<Located> {
    const located: Located = new Map();
    for (const { address, type } of missing) {
      const ids = tagged.filter((each) => each.address === address).map(({ id }) => id);
      const several = type === "aws_ebs_volume" && ids.length > 1;
      const [first] = several ? await this.#volumesByUse(ids) : ids;
      if (first !== undefined) located.set(address, first);
    }
    return located;
  }

  async #volumesByUse(ids: readonly string[]): Promise<string[]> {
    const Filters = [{ Name: "volume-id", Values: [...ids] }];
    const { Volumes } = await this.#clients.ec2.send(new DescribeVolumesCommand({ Filters }));
    const rank = ({ State, CreateTime }: Volume): [number, number] => [
      State === "in-use" ? 0 : 1,
      CreateTime?.getTime() ?? 0,
    ];
    const sorted = [...(Volumes ?? [])].sort((a, b) => {
      const [[usedA, madeA], [usedB, madeB]] = [rank(a), rank(b)];
      return usedA - usedB || madeA - madeB;
    });
    return sorted.flatMap(({ VolumeId }) => VolumeId ?? []);
  }

  /** Everything with the cluster's tag, and its address if it has one. */
  async #tagged(): Promise<TaggedResource[]> {
    const [ec2, keys, databases] = await Promise.all([
      this.#taggedOfEc2(),
      this.#taggedKeys(),
      this.#taggedDatabases(),
    ]);
    return [
      ...ec2.map(([address, id]) => ({ address, id, isLooked: isLookedAt(id) })),
      ...keys.map(([address, id]) => ({ address, id, isLooked: true })),
      // Found by name, which Terraform does not record as a database's id: none of them is ever a stray.
      ...databases.map(([address, id]) => ({ address, id, isLooked: false })),
    ];
  }

  async #taggedOfEc2(): Promise<[string, string][]> {
    const ids = new Set<string>();
    const ofCluster = [
      { Name: "key", Values: [CLUSTER_TAG] },
      { Name: "value", Values: [this.#clusterId] },
    ];
    const client = this.#clients.ec2;
    for await (const page of paginateDescribeTags({ client }, { Filters: ofCluster })) {
      for (const { ResourceId } of page.Tags ?? []) {
        if (ResourceId && !OF_A_GROUP.test(ResourceId)) ids.add(ResourceId);
      }
    }
    const found: [string, string][] = [];
    for (const some of chunks([...ids], FILTER_VALUES_MAX)) {
      const Filters = [
        { Name: "key", Values: [ADDRESS_TAG] },
        { Name: "resource-id", Values: some },
      ];
      for await (const page of paginateDescribeTags({ client }, { Filters })) {
        for (const { ResourceId, Value } of page.Tags ?? []) {
          if (ResourceId && Value) found.push([Value, ResourceId]);
        }
      }
    }
    const existing = await existingOfEc2(client, [...ids]);
    return found.filter(([, id]) => existing.has(id));
  }

  /** Keys are found only by their tags. */
  async #taggedKeys(): Promise<[string, string][]> {
    const found: [string, string][] = [];
    for (const [address, arn] of await this.#taggedByArn(["kms:key"])) {
      const id = arn.slice(arn.lastIndexOf("/") + 1);
      if (await this.#isKeyAlive(id)) found.push([address, id]);
    }
    return found;
  }

  /** A database with its groups, by their names. */
  async #taggedDatabases(): Promise<[string, string][]> {
    const found = await this.#taggedByArn(["rds:db", "rds:pg", "rds:subgrp"]);
    return found.map(([address, arn]) => [address, arn.slice(arn.lastIndexOf(":") + 1)]);
  }

  /** Addresses and ARNs of what the tagging API knows. */
  async #taggedByArn(ResourceTypeFilters: string[]): Promise<[string, string][]> {
    const found: [string, string][] = [];
    const TagFilters = [{ Key: CLUSTER_TAG, Values: [this.#clusterId] }];
    const input = { TagFilters, ResourceTypeFilters };
    for await (const page of paginateGetResources({ client: this.#clients.tagging }, input)) {
      for (const { ResourceARN: arn, Tags } of page.ResourceTagMappingList ?? []) {
        const address = Tags?.find((tag) => tag.Key === ADDRESS_TAG)?.Value;
        if (address && arn) found.push([address, arn]);
      }
    }
    return found;
  }

  /** A key that is scheduled for deletion keeps its tags for weeks. */
  async #isKeyAlive(keyId: string): Promise<boolean> {
    const answer = await orUndefined(() =>
      this.#clients.kms.send(new DescribeKeyCommand({ KeyId: keyId })),
    );
    return answer?.KeyMetadata !== undefined && answer.KeyMetadata.DeletionDate === undefined;
  }

  async #named({ type, attributes }: WantedResource): Promise<string | undefined> {
    const { autoScaling, ec2, elb, iam, s3, secrets } = this.#clients;
    const name = String(attributes.name ?? "");
    switch (type) {
      case "aws_autoscaling_group": {
        const command = new DescribeAutoScalingGroupsCommand({ AutoScalingGroupNames: [name] });
        return (await autoScaling.send(command)).AutoScalingGroups?.[0]?.AutoScalingGroupName;
      }
      case "aws_launch_template": {
        const command = new DescribeLaunchTemplatesCommand({ LaunchTemplateNames: [name] });
        return (await ec2.send(command)).LaunchTemplates?.[0]?.LaunchTemplateId;
      }
      case "aws_lb": {
        const command = new DescribeLoadBalancersCommand({ Names: [name] });
        return (await elb.send(command)).LoadBalancers?.[0]?.LoadBalancerArn;
      }
      case "aws_lb_target_group": {
        const command = new DescribeTargetGroupsCommand({ Names: [name] });
        return (await elb.send(command)).TargetGroups?.[0]?.TargetGroupArn;
      }
      case "aws_cloudwatch_log_group":
        return await this.#logGroup(name);
      case "aws_route53_zone":
        return await this.#zone(name);
      case "aws_iam_role":
        return (await iam.send(new GetRoleCommand({ RoleName: name }))).Role?.RoleName;
      case "aws_iam_instance_profile": {
        const command = new GetInstanceProfileCommand({ InstanceProfileName: name });
        return (await iam.send(command)).InstanceProfile?.InstanceProfileName;
      }
      case "aws_kms_alias":
        return await this.#alias(name);
      case "aws_s3_bucket": {
        const bucket = String(attributes.bucket);
        await s3.send(new HeadBucketCommand({ Bucket: bucket }));
        return bucket;
      }
      case "aws_secretsmanager_secret": {
        const secret = await secrets.send(new DescribeSecretCommand({ SecretId: name }));
        return secret.DeletedDate === undefined ? secret.ARN : undefined;
      }
      default:
        return undefined;
    }
  }

  async #alias(name: string): Promise<string | undefined> {
    for await (const page of paginateListAliases({ client: this.#clients.kms }, {})) {
      if (page.Aliases?.some((alias) => alias.AliasName === name)) return name;
    }
    return undefined;
  }

  async #logGroup(name: string): Promise<string | undefined> {
    const command = new DescribeLogGroupsCommand({ logGroupNamePrefix: name });
    const { logGroups } = await this.#clients.logs.send(command);
    return logGroups?.find((group) => group.logGroupName === name)?.logGroupName;
  }

  /** The name holds the cluster's hash, so a private zone of that name is the cluster's. */
  async #zone(name: string): Promise<string | undefined> {
    const command = new ListHostedZonesByNameCommand({ DNSName: name, MaxItems: 1 });
    const { HostedZones } = await this.#clients.route53.send(command);
    const zone = HostedZones?.find((each) => each.Name === `${name}.` && each.Config?.PrivateZone);
    return zone?.Id?.replace("/hostedzone/", "");
  }

  async #connecting(
    { type, attributes }: WantedResource,
    ids: ReadonlyMap<string, string>,
  ): Promise<string | undefined> {
    if (type === "aws_lb_listener") {
      const balancer = ids.get(referenceIn(attributes.load_balancer_arn));
      if (balancer === undefined) return undefined;
      const command = new DescribeListenersCommand({ LoadBalancerArn: balancer });
      const { Listeners } = await this.#clients.elb.send(command);
      return Listeners?.find((each) => each.Port === Number(attributes.port))?.ListenerArn;
    }
    if (type === "aws_route_table_association") {
      const subnet = ids.get(referenceIn(attributes.subnet_id));
      const table = ids.get(referenceIn(attributes.route_table_id));
      if (subnet === undefined || table === undefined) return undefined;
      const command = new DescribeRouteTablesCommand({ RouteTableIds: [table] });
      const { RouteTables } = await this.#clients.ec2.send(command);
      const associations = RouteTables?.[0]?.Associations ?? [];
      return associations.some((each) => each.SubnetId === subnet)
        ? `${subnet}/${table}`
        : undefined;
    }
    return undefined;
  }
}

/** The address in `${aws_lb.balancer.arn}`. */
function referenceIn(value: unknown): string {
  const [, address] = /^\$\{(\w+\.[\w-]+)\.\w+\}$/.exec(String(value)) ?? [];
  return address ?? "";
}

async function orUndefined<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof Error && NOT_THERE.test(error.name)) return undefined;
    throw error;
  }
}

function chunks<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  );
}
