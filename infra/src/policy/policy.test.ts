import { describe, expect, it } from "vitest";
import { CONTROL_PLANE } from "../../test/control-plane-fixture.ts";
import { OFFLINE, SPEC } from "../../test/stack-fixture.ts";
import { synthesizeCluster } from "../stacks/cluster/cluster-stack.ts";
import { synthesizeControlPlane } from "../stacks/control-plane/control-plane-stack.ts";
import { checkPolicies, type PolicyContext } from "./index.ts";

type Values = Record<string, unknown>;
interface Stack {
  resource: Record<string, Record<string, Values>>;
  data?: unknown;
}

const cluster = JSON.parse(synthesizeCluster(SPEC, OFFLINE)) as Stack;
const controlPlane = JSON.parse(synthesizeControlPlane(CONTROL_PLANE, OFFLINE)) as Stack;

/** The first resource of a type, to be spoiled. */
function first(stack: Stack, type: string): Values {
  const [resource] = Object.values(stack.resource[type] ?? {});
  if (resource === undefined) throw new Error(`the stack has no ${type}`);
  return resource;
}

const allow = (statement: Values) =>
  JSON.stringify({ Version: "2012-10-17", Statement: [{ Effect: "Allow", ...statement }] });

interface Spoiled {
  readonly rule: string;
  readonly kind?: PolicyContext["kind"];
  readonly spoil: (stack: Stack) => void;
}

/** One wrong thing in a stack that is right otherwise, and the rule that must see it. */
const wrong: Record<string, Spoiled> = {
  "a volume in the clear": {
    rule: "encryption-at-rest",
    spoil: (stack) => Object.assign(first(stack, "aws_ebs_volume"), { encrypted: false }),
  },
  "a root device in the clear": {
    rule: "encryption-at-rest",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_launch_template"), {
        block_device_mappings: [{ device_name: "/dev/xvda", ebs: { encrypted: "false" } }],
      }),
  },
  "a root device that the image decides on": {
    rule: "encryption-at-rest",
    spoil: (stack) => {
      delete first(stack, "aws_launch_template").block_device_mappings;
    },
  },
  "a bucket without encryption": {
    rule: "encryption-at-rest",
    spoil: (stack) => {
      delete stack.resource.aws_s3_bucket_server_side_encryption_configuration;
    },
  },
  "a log group without a key": {
    rule: "encryption-at-rest",
    spoil: (stack) => {
      delete first(stack, "aws_cloudwatch_log_group").kms_key_id;
    },
  },
  "a secret without a key": {
    rule: "encryption-at-rest",
    spoil: (stack) => {
      delete first(stack, "aws_secretsmanager_secret").kms_key_id;
    },
  },
  "a key that never rotates": {
    rule: "encryption-at-rest",
    spoil: (stack) => Object.assign(first(stack, "aws_kms_key"), { enable_key_rotation: false }),
  },
  "a database in the clear": {
    rule: "encryption-at-rest",
    kind: "control-plane",
    spoil: (stack) => Object.assign(first(stack, "aws_db_instance"), { storage_encrypted: false }),
  },
  "a file system in the clear": {
    rule: "encryption-at-rest",
    kind: "control-plane",
    spoil: (stack) => Object.assign(first(stack, "aws_efs_file_system"), { encrypted: false }),
  },
  "images in the clear": {
    rule: "encryption-at-rest",
    kind: "control-plane",
    spoil: (stack) => {
      delete first(stack, "aws_ecr_repository").encryption_configuration;
    },
  },
  "a bucket that may become public": {
    rule: "bucket-not-public",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_s3_bucket_public_access_block"), {
        restrict_public_buckets: false,
      }),
  },
  "a bucket without a public access block": {
    rule: "bucket-not-public",
    spoil: (stack) => {
      delete stack.resource.aws_s3_bucket_public_access_block;
    },
  },
  "a bucket that takes plain HTTP": {
    rule: "bucket-not-public",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_s3_bucket_policy"), {
        policy: allow({ Principal: { AWS: "arn:aws:iam::1:root" }, Action: "s3:GetObject" }),
      }),
  },
  "a public ACL": {
    rule: "bucket-not-public",
    spoil: (stack) => Object.assign(first(stack, "aws_s3_bucket"), { acl: "public-read" }),
  },
  "a port that is open to the world": {
    rule: "open-ingress",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_vpc_security_group_ingress_rule"), {
        cidr_ipv4: "0.0.0.0/0",
      }),
  },
  "the world in two halves": {
    rule: "open-ingress",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_security_group"), {
        ingress: [{ cidr_blocks: ["0.0.0.0/1", "128.0.0.0/1"] }],
      }),
  },
  "the world over IPv6": {
    rule: "open-ingress",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_vpc_security_group_ingress_rule"), { cidr_ipv6: "::/0" }),
  },
  "metadata without a session": {
    rule: "instance-metadata",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_launch_template"), {
        metadata_options: { http_tokens: "optional", http_put_response_hop_limit: 1 },
      }),
  },
  "metadata for containers": {
    rule: "instance-metadata",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_launch_template"), {
        metadata_options: { http_tokens: "required", http_put_response_hop_limit: 2 },
      }),
  },
  "no metadata options at all": {
    rule: "instance-metadata",
    spoil: (stack) => {
      delete first(stack, "aws_launch_template").metadata_options;
    },
  },
  "a subnet of nobody": {
    rule: "required-tags",
    spoil: (stack) => {
      delete (first(stack, "aws_subnet").tags as Values)["millrace:tenant"];
    },
  },
  "a subnet of a cluster that is said to be the control plane's": {
    rule: "required-tags",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_subnet").tags as Values, {
        "millrace:managed-by": "millrace-control-plane",
      }),
  },
  "a key of the control plane that is said to be a cluster's": {
    rule: "required-tags",
    kind: "control-plane",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_kms_key").tags as Values, {
        "millrace:managed-by": "millrace",
      }),
  },
  "an instance of a cluster that is said to be somebody else's": {
    rule: "required-tags",
    spoil: (stack) => {
      const [instance] = first(stack, "aws_launch_template").tag_specifications as Values[];
      Object.assign(instance?.tags as Values, { "millrace:managed-by": "other" });
    },
  },
  "a group that is said to be the control plane's": {
    rule: "required-tags",
    spoil: (stack) => {
      const tags = first(stack, "aws_autoscaling_group").tag as Values[];
      const managed = tags.find(({ key }) => key === "millrace:managed-by");
      Object.assign(managed as Values, { value: "millrace-control-plane" });
    },
  },
  "a group of nobody": {
    rule: "required-tags",
    spoil: (stack) => Object.assign(first(stack, "aws_autoscaling_group"), { tag: [] }),
  },
  "root volumes of nobody": {
    rule: "required-tags",
    spoil: (stack) => {
      const template = first(stack, "aws_launch_template");
      template.tag_specifications = (template.tag_specifications as Values[]).filter(
        ({ resource_type }) => resource_type !== "volume",
      );
    },
  },
  "a service without its installation": {
    rule: "required-tags",
    kind: "control-plane",
    spoil: (stack) => Object.assign(first(stack, "aws_ecs_service"), { tags: {} }),
  },
  "a role without a boundary": {
    rule: "permissions-boundary",
    spoil: (stack) => {
      delete first(stack, "aws_iam_role").permissions_boundary;
    },
  },
  "a user": {
    rule: "permissions-boundary",
    spoil: (stack) => {
      stack.resource.aws_iam_user = { somebody: { name: "somebody" } };
    },
  },
  "a volume that a change may destroy": {
    rule: "deletion-protection",
    spoil: (stack) => {
      delete first(stack, "aws_ebs_volume").lifecycle;
    },
  },
  "a bucket that goes with its objects": {
    rule: "deletion-protection",
    spoil: (stack) => Object.assign(first(stack, "aws_s3_bucket"), { force_destroy: true }),
  },
  "a key that is gone at once": {
    rule: "deletion-protection",
    spoil: (stack) => Object.assign(first(stack, "aws_kms_key"), { deletion_window_in_days: 1 }),
  },
  "a database that anybody may delete": {
    rule: "deletion-protection",
    kind: "control-plane",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_db_instance"), { deletion_protection: false }),
  },
  "a database without a last snapshot": {
    rule: "deletion-protection",
    kind: "control-plane",
    spoil: (stack) => Object.assign(first(stack, "aws_db_instance"), { skip_final_snapshot: true }),
  },
  "a front door that anybody may delete": {
    rule: "deletion-protection",
    kind: "control-plane",
    spoil: (stack) => Object.assign(first(stack, "aws_lb"), { enable_deletion_protection: false }),
  },
  "every action": {
    rule: "policy-wildcards",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_iam_role_policy"), {
        policy: allow({ Action: "s3:*", Resource: "arn:aws:s3:::one/*" }),
      }),
  },
  "every resource": {
    rule: "policy-wildcards",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_iam_role_policy"), {
        policy: allow({ Action: "s3:GetObject", Resource: "*" }),
      }),
  },
  "everything but something": {
    rule: "policy-wildcards",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_iam_role_policy"), {
        policy: allow({ NotAction: "iam:*", Resource: "arn:aws:s3:::one/*" }),
      }),
  },
  "everybody's role": {
    rule: "policy-wildcards",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_iam_role"), {
        assume_role_policy: allow({ Principal: "*", Action: "sts:AssumeRole" }),
      }),
  },
  "everybody's bucket": {
    rule: "policy-wildcards",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_s3_bucket_policy"), {
        policy: allow({ Principal: { AWS: "*" }, Action: "s3:GetObject", Resource: "arn" }),
      }),
  },
  "a key for everybody": {
    rule: "policy-wildcards",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_kms_key"), {
        policy: allow({ Principal: { AWS: "*" }, Action: "kms:*", Resource: "*" }),
      }),
  },
  "a policy that nobody can read": {
    rule: "policy-wildcards",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_iam_role_policy"), {
        policy: `\${jsonencode({ Statement = [{ Effect = "Allow" }] })}`,
      }),
  },
  "plain HTTP": {
    rule: "encryption-in-transit",
    kind: "control-plane",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_lb_listener"), {
        protocol: "HTTP",
        default_action: [{ type: "forward" }],
      }),
  },
  "an old TLS": {
    rule: "encryption-in-transit",
    kind: "control-plane",
    spoil: (stack) => {
      for (const listener of Object.values(stack.resource.aws_lb_listener ?? {})) {
        if (listener.protocol === "HTTPS") listener.ssl_policy = "ELBSecurityPolicy-2016-08";
      }
    },
  },
  "a database that takes plain connections": {
    rule: "encryption-in-transit",
    kind: "control-plane",
    spoil: (stack) => Object.assign(first(stack, "aws_db_parameter_group"), { parameter: [] }),
  },
  "a database with AWS's own parameters": {
    rule: "encryption-in-transit",
    kind: "control-plane",
    spoil: (stack) => {
      delete first(stack, "aws_db_instance").parameter_group_name;
    },
  },
  "files in the clear on their way": {
    rule: "encryption-in-transit",
    kind: "control-plane",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_ecs_task_definition"), {
        volume: [{ name: "home", efs_volume_configuration: { file_system_id: "fs-1" } }],
      }),
  },
  "plain TCP from the internet": {
    rule: "encryption-in-transit",
    spoil: (stack) => Object.assign(first(stack, "aws_lb"), { internal: false }),
  },
  "a balancer on the internet": {
    rule: "private-network",
    spoil: (stack) => Object.assign(first(stack, "aws_lb"), { internal: false }),
  },
  "an internet gateway": {
    rule: "private-network",
    spoil: (stack) => {
      stack.resource.aws_internet_gateway = { out: {} };
    },
  },
  "public addresses": {
    rule: "private-network",
    spoil: (stack) => Object.assign(first(stack, "aws_subnet"), { map_public_ip_on_launch: true }),
  },
  "a database's password": {
    rule: "plain-secrets",
    kind: "control-plane",
    spoil: (stack) => Object.assign(first(stack, "aws_db_instance"), { password: "hunter2" }),
  },
  "a secret's value": {
    rule: "plain-secrets",
    spoil: (stack) =>
      Object.assign(stack.resource, {
        aws_secretsmanager_secret_version: { value: { secret_string: "hunter2" } },
      }),
  },
  "a secret in a task's environment": {
    rule: "plain-secrets",
    kind: "control-plane",
    spoil: (stack) =>
      Object.assign(first(stack, "aws_ecs_task_definition"), {
        container_definitions: JSON.stringify([
          { name: "api", environment: [{ name: "MILLRACE_AUTH_SECRET", value: "s" }] },
        ]),
      }),
  },
  "a question to AWS": {
    rule: "self-contained",
    spoil: (stack) => {
      stack.data = { aws_ami: { newest: { most_recent: true } } };
    },
  },
};

const stackOf = { cluster, "control-plane": controlPlane } as const;

describe("the rules on a stack", () => {
  it.each(["cluster", "control-plane"] as const)("find nothing in the %s's", (kind) => {
    expect(checkPolicies(stackOf[kind], { kind })).toEqual([]);
  });

  it.each(Object.entries(wrong))("see %s", (_, { rule, kind = "cluster", spoil }) => {
    const stack = structuredClone(stackOf[kind]);
    spoil(stack);
    const findings = checkPolicies(stack, { kind });
    expect(findings.map((finding) => finding.rule)).toContain(rule);
    expect(findings.every(({ message }) => message.length > 10)).toBe(true);
  });

  it("let the endpoint of a service that knows no policy be, as AWS shows it, and no other", () => {
    const everything = JSON.stringify({
      Statement: [{ Effect: "Allow", Principal: "*", Action: "*", Resource: "*" }],
    });
    const findings = (endpoint: string) => {
      const stack = structuredClone(cluster);
      const values = stack.resource.aws_vpc_endpoint?.[endpoint];
      Object.assign(values ?? {}, { policy: everything });
      return checkPolicies(stack, { kind: "cluster" }).map(({ rule }) => rule);
    };
    expect(findings("control-link_endpoint")).toEqual([]);
    expect(findings("aws-access_ec2")).toContain("policy-wildcards");
  });

  it("are all tried here", () => {
    const tried = new Set(Object.values(wrong).map(({ rule }) => rule));
    // Only a plan deletes; see below.
    tried.add("data-loss");
    expect([...tried].sort()).toEqual([
      "bucket-not-public",
      "data-loss",
      "deletion-protection",
      "encryption-at-rest",
      "encryption-in-transit",
      "instance-metadata",
      "open-ingress",
      "permissions-boundary",
      "plain-secrets",
      "policy-wildcards",
      "private-network",
      "required-tags",
      "self-contained",
    ]);
  });

  it("let a listener be open that was asked for, and no other", () => {
    const stack = structuredClone(cluster);
    const rules = stack.resource.aws_vpc_security_group_ingress_rule ?? {};
    const [asked, other] = Object.keys(rules) as [string, string];
    Object.assign(rules[asked] as Values, { cidr_ipv4: "0.0.0.0/0" });
    const publicIngress = [`aws_vpc_security_group_ingress_rule.${asked}`];
    expect(checkPolicies(stack, { kind: "cluster", publicIngress })).toEqual([]);
    Object.assign(rules[other] as Values, { cidr_ipv4: "0.0.0.0/0" });
    expect(checkPolicies(stack, { kind: "cluster", publicIngress })).toMatchObject([
      { rule: "open-ingress", address: `aws_vpc_security_group_ingress_rule.${other}` },
    ]);
  });

  it("take tags that the provider gives to everything", () => {
    const stack = {
      provider: { aws: [{ default_tags: [{ tags: ownerTags }] }] },
      resource: { aws_vpc: { one: { tags: { "millrace:address": "aws_vpc.one" } } } },
    };
    expect(checkPolicies(stack, { kind: "cluster" })).toEqual([]);
  });
});

const ownerTags = {
  "millrace:tenant": "org_1",
  "millrace:cluster": "clu_1",
  "millrace:environment": "env_1",
  "millrace:managed-by": "millrace",
};

/** `terraform show -json` of one change, as Terraform 1.11 writes it. */
function planOf(
  type: string,
  actions: readonly string[],
  values: Values = {},
  unknown: unknown = {},
  expressions: unknown = {},
) {
  const address = `${type}.one`;
  const resource = { address, mode: "managed", type, name: "one", values };
  return {
    format_version: "1.2",
    planned_values: { root_module: { resources: actions.includes("delete") ? [] : [resource] } },
    resource_changes: [
      {
        address,
        mode: "managed",
        type,
        name: "one",
        change: { actions, before: null, after: values, after_unknown: unknown },
      },
    ],
    configuration: {
      root_module: { resources: [{ address, mode: "managed", type, name: "one", expressions }] },
    },
  };
}

describe("the rules on a plan", () => {
  it.each([
    ["aws_ebs_volume", ["delete"]],
    ["aws_ebs_volume", ["delete", "create"]],
    ["aws_s3_bucket", ["create", "delete"]],
    ["aws_kms_key", ["delete"]],
    ["aws_db_instance", ["delete", "create"]],
    ["aws_efs_file_system", ["delete"]],
    ["aws_s3_object", ["delete"]],
  ])("refuse that %s is lost by %s", (type, actions) => {
    const plan = planOf(type, actions);
    expect(checkPolicies(plan, { kind: "cluster" })).toMatchObject([
      { rule: "data-loss", severity: "error", address: `${type}.one` },
    ]);
    expect(checkPolicies(plan, { kind: "cluster", purge: true })).toEqual([]);
  });

  it("let everything else be deleted and replaced", () => {
    expect(checkPolicies(planOf("aws_lb", ["delete"]), { kind: "cluster" })).toEqual([]);
    // A broker build whose upload broke off comes again under the same key.
    const again = planOf("aws_s3_object", ["delete", "create"], {
      tags: {
        "millrace:installation": "main",
        "millrace:address": "a",
        "millrace:managed-by": "millrace-control-plane",
      },
    });
    expect(checkPolicies(again, { kind: "control-plane" })).toEqual([]);
  });

  it("check values that a plan knows", () => {
    const values = { encrypted: false, tags: { ...ownerTags, "millrace:address": "a" } };
    expect(
      checkPolicies(planOf("aws_ebs_volume", ["create"], values), { kind: "cluster" }),
    ).toMatchObject([{ rule: "encryption-at-rest", address: "aws_ebs_volume.one" }]);
  });

  it("leave to the stack what AWS decides", () => {
    const values = { tags: { ...ownerTags, "millrace:address": "a" } };
    const unknown = { kms_key_id: true };
    const plan = planOf("aws_cloudwatch_log_group", ["create"], values, unknown);
    expect(checkPolicies(plan, { kind: "cluster" })).toEqual([]);
  });

  it("follow references that are not known yet", () => {
    const tags = { ...ownerTags, "millrace:address": "a" };
    const bucket = planOf("aws_s3_bucket", ["create"], { tags });
    const rest = [
      ["aws_s3_bucket_server_side_encryption_configuration", {}, {}],
      [
        "aws_s3_bucket_public_access_block",
        {
          block_public_acls: true,
          block_public_policy: true,
          ignore_public_acls: true,
          restrict_public_buckets: true,
        },
        {},
      ],
      ["aws_s3_bucket_policy", {}, { policy: true }],
    ].map(([type, values, unknown]) =>
      planOf(
        type as string,
        ["create"],
        values as Values,
        { ...(unknown as Values), bucket: true },
        {
          bucket: { references: ["aws_s3_bucket.one.id", "aws_s3_bucket.one"] },
        },
      ),
    );
    const all = [bucket, ...rest];
    const plan = {
      planned_values: {
        root_module: { resources: all.flatMap((p) => p.planned_values.root_module.resources) },
      },
      resource_changes: all.flatMap((p) => p.resource_changes),
      configuration: {
        root_module: { resources: all.flatMap((p) => p.configuration.root_module.resources) },
      },
    };
    expect(checkPolicies(plan, { kind: "cluster" })).toEqual([]);
    plan.configuration.root_module.resources.pop();
    expect(checkPolicies(plan, { kind: "cluster" })).toMatchObject([{ rule: "bucket-not-public" }]);
  });

  it("see data sources and modules", () => {
    const plan = planOf("aws_lb", ["delete"]);
    const root = plan.configuration.root_module as Values & { resources: unknown[] };
    root.module_calls = { other: {} };
    root.resources.push({ address: "data.aws_ami.newest", mode: "data", type: "aws_ami" });
    expect(checkPolicies(plan, { kind: "cluster" }).map(({ address }) => address)).toEqual([
      "data.aws_ami.newest",
      "module.other",
    ]);
  });
});

describe("what is neither stack nor plan", () => {
  it.each([["{}"], ["[]"], [null], [{ version: 4, resources: [] }]])("is refused: %j", (input) => {
    expect(() => checkPolicies(input, { kind: "cluster" })).toThrow(TypeError);
  });
});
