import { describe, expect, test } from "vitest";
import { CONTROL_PLANE } from "../../../test/control-plane-fixture.ts";
import {
  type Attributes,
  addresses,
  OFFLINE,
  reference,
  resource,
  type StackDocument,
  snapshotText,
} from "../../../test/stack-fixture.ts";
import type { PolicyDocument } from "../../iam/document.ts";
import { isAllowed } from "../../iam/evaluation.ts";
import { checkPolicies } from "../../policy/index.ts";
import { publicIngress, synthesizeControlPlane } from "./control-plane-stack.ts";
import { type ControlPlaneSpec, ControlPlaneSpecError } from "./spec.ts";

function stackOf(change: Partial<ControlPlaneSpec> = {}): StackDocument {
  return JSON.parse(synthesizeControlPlane({ ...CONTROL_PLANE, ...change }, OFFLINE));
}

const whole = stackOf();
const policyOf = (type: string, name: string) =>
  JSON.parse(
    String(resource(whole, type, name).policy).replaceAll(
      /\$\{aws_([a-z0-9_]+)\.[^}]*\}/g,
      "arn:$1",
    ),
  ) as PolicyDocument;

test("the stack is what the snapshot shows", async () => {
  await expect(snapshotText(whole)).toMatchFileSnapshot("control-plane-stack.snap");
});

test("the same spec always gives the same text, which names no machine", () => {
  const text = synthesizeControlPlane(CONTROL_PLANE, OFFLINE);
  expect(synthesizeControlPlane(CONTROL_PLANE, OFFLINE)).toBe(text);
  expect(text).not.toMatch(/node_modules|\/tmp\/|file:/);
});

test("the foundation is the beginning of the whole, resource by resource", () => {
  const foundation = stackOf({ stage: "foundation" });
  for (const [type, byName] of Object.entries(foundation.resource)) {
    expect(whole.resource[type]).toMatchObject(byName);
  }
  expect(addresses(foundation)).not.toContain("aws_vpc.network_vpc");
  expect(foundation.variable).toBeUndefined();
  expect(checkPolicies(foundation, { kind: "control-plane" })).toEqual([]);
});

test("a console for the world is open only where that was asked for", () => {
  const open = stackOf({ allowedCidrs: ["0.0.0.0/0"] });
  const findings = checkPolicies(open, { kind: "control-plane" });
  expect(new Set(findings.map(({ rule }) => rule))).toEqual(new Set(["open-ingress"]));
  const asked = publicIngress({ ...CONTROL_PLANE, allowedCidrs: ["0.0.0.0/0"] });
  expect(findings.map(({ address }) => address).sort()).toEqual([...asked].sort());
  expect(checkPolicies(open, { kind: "control-plane", publicIngress: asked })).toEqual([]);
});

test("neither the database's password nor the sessions' secret is in the stack", () => {
  const database = resource(whole, "aws_db_instance");
  expect(database).not.toHaveProperty("password");
  expect(database.password_wo).toBe(`\${var.database_password}`);
  for (const version of Object.values(whole.resource.aws_secretsmanager_secret_version ?? {})) {
    expect(version).not.toHaveProperty("secret_string");
    expect(version.secret_string_wo).toMatch(
      /var\.((api_|worker_|gateway_)?database_password|gateway_token|session_secret|external_id)/,
    );
  }
  for (const name of [
    "database_password",
    "api_database_password",
    "worker_database_password",
    "gateway_database_password",
    "gateway_token",
    "session_secret",
    "external_id",
  ]) {
    expect(whole.variable?.[name]).toMatchObject({ ephemeral: true, sensitive: true });
  }
});

test("the database is in two zones, backed up and reached by API, gateway and worker only", () => {
  expect(resource(whole, "aws_db_instance")).toMatchObject({
    multi_az: true,
    publicly_accessible: false,
    deletion_protection: true,
    backup_retention_period: 14,
  });
  const rules = Object.entries(whole.resource.aws_vpc_security_group_ingress_rule ?? {});
  const toDatabase = rules.filter(([name]) => name.startsWith("database_"));
  expect(toDatabase.map(([, rule]) => rule.referenced_security_group_id).sort()).toEqual([
    "$" + "{aws_security_group.api_firewall_group.id}",
    "$" + "{aws_security_group.gateway_firewall_group.id}",
    "$" + "{aws_security_group.worker_firewall_group.id}",
  ]);
});

const PROGRAMS = ["api", "console", "gateway", "worker"];
const containers = (name: string, stack = whole) =>
  JSON.parse(
    String(resource(stack, "aws_ecs_task_definition", `${name}_task`).container_definitions),
  ) as Attributes[];
interface Variable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: string;
}

/** Plain ones, and those that are taken from secrets. */
function variables(container: Attributes | undefined): Record<string, string | undefined> {
  const { environment, secrets } = container as Record<string, readonly Variable[]>;
  const all = [...(environment ?? []), ...(secrets ?? [])];
  return Object.fromEntries(all.map(({ name, value, valueFrom }) => [name, value ?? valueFrom]));
}

/** The address of a secret's newest version. */
function versionOf(secret: string): string {
  return ["$", "{aws_secretsmanager_secret_version.", secret, "_version.arn}"].join("");
}

describe("tasks", () => {
  test("every program that is told the provisioner's role is told the region, too", () => {
    const all = ["api", "worker", "console"].flatMap((name) => containers(name)).map(variables);
    const planning = all.filter((each) => each.MILLRACE_AWS_ROLE_ARN !== undefined);
    expect(planning.length).toBeGreaterThan(2);
    for (const each of planning) expect(each.MILLRACE_AWS_REGION).toBe("eu-central-1");
  });

  test("only migrations have the address of the database's owner", () => {
    for (const container of PROGRAMS.flatMap((name) => containers(name))) {
      const isOwner = Object.values(variables(container)).includes(versionOf("database-url"));
      expect(isOwner).toBe(container.name === "migrate");
    }
    const [migrate] = containers("worker");
    expect(variables(migrate)).toMatchObject({
      DATABASE_URL: versionOf("database-url"),
      MILLRACE_API_DATABASE_URL: versionOf("api-database-url"),
      MILLRACE_WORKER_DATABASE_URL: versionOf("worker-database-url"),
      MILLRACE_GATEWAY_DATABASE_URL: versionOf("gateway-database-url"),
    });
  });

  test("migrate before the API, the gateway and the worker start", () => {
    for (const name of ["api", "gateway", "worker"]) {
      const program = containers(name).find((container) => container.name === name);
      expect(program?.dependsOn).toContainEqual({ containerName: "migrate", condition: "SUCCESS" });
    }
    expect(containers("console").map(({ name }) => name)).toEqual(["console"]);
  });

  test("one task at a time makes the first account, and only that program signs for it", () => {
    expect(containers("api").map(({ name }) => name)).toEqual(["migrate", "api"]);
    const [, first, worker] = containers("worker");
    expect(first?.name).toBe("first-account");
    expect(variables(first)).toHaveProperty("MILLRACE_AUTH_SECRET");
    expect(variables(worker)).not.toHaveProperty("MILLRACE_AUTH_SECRET");
  });

  test("of the API create clusters where the artefact bucket and its key are", () => {
    const { provider } = JSON.parse(synthesizeControlPlane(CONTROL_PLANE, OFFLINE));
    const api = variables(containers("api").at(-1));
    expect(api.MILLRACE_AWS_REGION).toBe(provider.aws[0].region);
  });

  test("that read secrets are replaced when these change, and not before they have changed", () => {
    const rotated = stackOf({ secretsVersion: 2 });
    for (const name of ["api", "gateway", "worker"]) {
      const [before, after] = [whole, rotated].map((stack) => containers(name, stack));
      expect(after).not.toEqual(before);
      const own = variables(after?.at(-1));
      expect(own.DATABASE_URL).toBe(versionOf(`${name}-database-url`));
      expect(own.MILLRACE_GATEWAY_TOKEN).toBe(versionOf("gateway-token"));
    }
    const api = variables(containers("api", rotated).at(-1));
    expect(api.MILLRACE_AUTH_SECRETS_REPLACED).toBe(`${api.MILLRACE_AUTH_SECRET}::AWSPREVIOUS:`);
    expect(variables(containers("api").at(-1))).not.toHaveProperty(
      "MILLRACE_AUTH_SECRETS_REPLACED",
    );
    expect(containers("console", rotated)).toEqual(containers("console"));
    expect(rotated.output?.secrets_version).toMatchObject({ value: 2 });
  });

  test("write nowhere but into their folders, and run as nobody", () => {
    for (const container of PROGRAMS.flatMap((name) => containers(name))) {
      expect(container).toMatchObject({ readonlyRootFilesystem: true, user: "10001:10001" });
    }
  });

  test("the worker is alone: its successor starts after it has ended", () => {
    expect(resource(whole, "aws_ecs_service", "worker_service")).toMatchObject({
      desired_count: 1,
      deployment_minimum_healthy_percent: 0,
      deployment_maximum_percent: 100,
    });
  });
});

describe("the control link", () => {
  const group = (name: string) => reference(`aws_security_group.${name}_firewall_group.id`);
  const rules = (type: "ingress" | "egress") =>
    Object.entries(whole.resource[`aws_vpc_security_group_${type}_rule`] ?? {});

  test("ends at the gateways' port, with the installation's certificate", () => {
    const listener = resource(whole, "aws_lb_listener", "links_listener");
    expect(listener).toMatchObject({
      protocol: "TLS",
      port: 443,
      certificate_arn: CONTROL_PLANE.certificateArn,
      load_balancer_arn: reference("aws_lb.links_balancer.arn"),
    });
    const targets = resource(whole, "aws_lb_target_group", "links_targets");
    const [program] = containers("gateway").slice(-1);
    expect(variables(program).MILLRACE_GATEWAY_LISTEN).toBe(`0.0.0.0:${targets.port}`);
    expect(resource(whole, "aws_ecs_service", "gateway_service").load_balancer).toEqual([
      {
        target_group_arn: reference("aws_lb_target_group.links_targets.arn"),
        container_name: "gateway",
        container_port: targets.port,
      },
    ]);
  });

  test("is reached through endpoints of the clusters' account, and from nowhere else", () => {
    expect(resource(whole, "aws_vpc_endpoint_service")).toMatchObject({
      allowed_principals: [`arn:aws:iam::${CONTROL_PLANE.accountId}:root`],
      network_load_balancer_arns: [reference("aws_lb.links_balancer.arn")],
    });
    const balancer = resource(whole, "aws_lb", "links_balancer");
    expect(balancer).toMatchObject({
      internal: true,
      security_groups: [group("links")],
      enforce_security_group_inbound_rules_on_private_link_traffic: "off",
    });
    expect(
      rules("ingress").filter(([, rule]) => rule.security_group_id === group("links")),
    ).toEqual([]);
  });

  test("is used by API, worker and other gateways, and admits nobody else to their port", () => {
    const url = new URL(String(variables(containers("api").at(-1)).MILLRACE_GATEWAY_URL));
    expect(variables(containers("worker").at(-1)).MILLRACE_GATEWAY_URL).toBe(url.origin);
    const admitted = rules("ingress").filter(
      ([, rule]) => rule.security_group_id === group("gateway"),
    );
    const from = (port: number) =>
      admitted
        .filter(([, { from_port, to_port }]) => from_port === port && to_port === port)
        .map(([, rule]) => rule.referenced_security_group_id)
        .sort();
    expect(from(4100)).toEqual([group("links")]);
    expect(from(Number(url.port))).toEqual([group("api"), group("gateway"), group("worker")]);
    expect(admitted).toHaveLength(4);
    const service = resource(whole, "aws_ecs_service", "gateway_service");
    expect(service.service_connect_configuration).toMatchObject({
      service: [
        { client_alias: { dns_name: url.hostname, port: Number(url.port) }, port_name: "gateway" },
      ],
    });
    // As HTTP, Service Connect would end each stream of records after 15 seconds.
    const ports = containers("gateway").at(-1)?.portMappings as Attributes[];
    expect(ports.filter((each) => "appProtocol" in each)).toEqual([]);
  });
});

describe("permissions", () => {
  const worker = policyOf("aws_iam_role_policy", "role-worker_policy");
  const execution = policyOf("aws_iam_role_policy", "role-execution_policy");
  const boundary = policyOf("aws_iam_policy", "boundary");
  const assume = {
    action: "sts:AssumeRole",
    resource: "arn:aws:iam::444455556666:role/millrace/provisioner",
  };
  const policies = { identity: [worker], boundary };

  test("the worker takes provisioners' roles, and only with an external id", () => {
    expect(isAllowed(policies, { ...assume, context: { "sts:ExternalId": "org" } })).toBe(true);
    expect(isAllowed(policies, assume)).toBe(false);
    const admin = { ...assume, resource: "arn:aws:iam::444455556666:role/admin" };
    expect(isAllowed(policies, { ...admin, context: { "sts:ExternalId": "org" } })).toBe(false);
  });

  test("the API has no rights at AWS, no folder, and no part of an external id", () => {
    expect(whole.resource.aws_iam_role_policy).not.toHaveProperty("role-api_policy");
    expect(JSON.stringify(resource(whole, "aws_ecs_task_definition", "api_task"))).not.toMatch(
      /efs|EXTERNAL_ID/,
    );
    const trust = JSON.parse(
      String(resource(whole, "aws_iam_role", "provisioner_role").assume_role_policy),
    );
    expect(trust.Statement[0].Principal).toEqual({
      AWS: ["$" + "{aws_iam_role.role-worker_role.arn}"],
    });
    const files = Object.values(whole.resource.aws_vpc_security_group_ingress_rule ?? {}).filter(
      ({ from_port }) => from_port === 2049,
    );
    expect(files).toHaveLength(1);
  });

  const roles = Object.keys(whole.resource.aws_iam_role ?? {});
  test.each(roles)("%s keeps no policy that the stack did not give it", (role) => {
    const construct = role.replace(/role$/, "");
    const role_name = reference(`aws_iam_role.${role}.name`);
    const given = (type: string, attribute: string) =>
      Object.keys(whole.resource[type] ?? {})
        .filter((name) => name.startsWith(construct))
        .map((name) => reference(`${type}.${name}.${attribute}`));
    const own = resource(whole, "aws_iam_role_policies_exclusive", `${construct}policies`);
    expect(own).toMatchObject({ role_name, policy_names: given("aws_iam_role_policy", "name") });
    const type = "aws_iam_role_policy_attachments_exclusive";
    const attached = resource(whole, type, `${construct}attachments`);
    expect(attached.role_name).toBe(role_name);
    expect(new Set(attached.policy_arns as string[])).toEqual(
      new Set(given("aws_iam_role_policy_attachment", "policy_arn")),
    );
  });

  test("the worker reads no secret by itself, and changes no role", () => {
    for (const action of [
      "secretsmanager:GetSecretValue",
      "iam:PutRolePolicy",
      "ec2:RunInstances",
    ]) {
      expect(isAllowed(policies, { action, resource: "*" })).toBe(false);
    }
  });

  /** AWS's list for the role of flow logs; the group exists, so it need not be created. */
  test("VPC flow logs find their log group and write to it", () => {
    const identity = [policyOf("aws_iam_role_policy", "role-flow-log_policy")];
    const { region, accountId } = CONTROL_PLANE;
    const groups = `arn:aws:logs:${region}:${accountId}:log-group:`;
    const group = `${groups}/millrace-control-plane/main/refused-traffic:log-stream:eni-1`;
    for (const call of ["CreateLogStream", "DescribeLogStreams", "PutLogEvents"]) {
      const request = { action: `logs:${call}`, resource: group };
      expect(isAllowed({ identity, boundary }, request), call).toBe(true);
    }
    const find = { action: "logs:DescribeLogGroups", resource: `${groups}:log-stream:` };
    expect(isAllowed({ identity, boundary }, find)).toBe(true);
  });

  test("the worker protects tasks of its own installation", () => {
    const { region, accountId } = CONTROL_PLANE;
    const task = (cluster: string) => ({
      action: "ecs:UpdateTaskProtection",
      resource: `arn:aws:ecs:${region}:${accountId}:task/${cluster}/1`,
    });
    expect(isAllowed(policies, task("mr-main"))).toBe(true);
    expect(isAllowed(policies, task("mr-other"))).toBe(false);
  });

  test("the work folder is mounted by the worker through its access point, with TLS, and by nobody else", () => {
    const text = String(resource(whole, "aws_efs_file_system_policy").policy);
    expect(text).toContain("aws_iam_role.role-worker_role.arn");
    const document = policyOf("aws_efs_file_system_policy", "home_policy");
    const request = { action: "elasticfilesystem:ClientMount", resource: "arn:efs_file_system" };
    const mount = (context: Record<string, string>) =>
      isAllowed({ identity: [], resource: document }, { ...request, context });
    const point = { "elasticfilesystem:AccessPointArn": "arn:efs_access_point" };
    expect(mount({ ...point, "aws:SecureTransport": "true" })).toBe(true);
    expect(mount({ ...point, "aws:SecureTransport": "false" })).toBe(false);
    expect(mount({ "aws:SecureTransport": "true" })).toBe(false);
    const allows = document.Statement.filter(({ Effect }) => Effect === "Allow");
    expect(allows.map(({ Principal }) => Principal)).toEqual([{ AWS: "arn:iam_role" }]);
  });

  test("the boundary lets through what the roles need, and nothing that none has", () => {
    const log = `arn:aws:logs:${CONTROL_PLANE.region}:${CONTROL_PLANE.accountId}:log-group:/millrace-control-plane/main/tasks:log-stream:1`;
    expect(
      isAllowed(
        { identity: [execution], boundary },
        { action: "logs:PutLogEvents", resource: log },
      ),
    ).toBe(true);
    const wide: PolicyDocument = {
      Version: "2012-10-17",
      Statement: [{ Effect: "Allow", Action: "*", Resource: "*" }],
    };
    for (const action of ["iam:CreateRole", "s3:GetObject", "ec2:TerminateInstances"]) {
      expect(isAllowed({ identity: [wide], boundary }, { action, resource: "*" })).toBe(false);
    }
  });
});

describe("a spec that cannot stand", () => {
  test.each<[string, Partial<ControlPlaneSpec>]>([
    ["installation", { installation: "Main" }],
    ["account", { accountId: "123" }],
    ["zones", { zones: ["eu-central-1a"] }],
    ["cidr", { cidr: "10.0.0.0/28" }],
    ["broker build", { brokerBuild: { path: "x", sha256: "abc" } }],
    ["image api", { images: { ...CONTROL_PLANE.images, api: "api:latest" } as never }],
    ["AMI", { amiId: "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023" }],
    ["certificate", { certificateArn: "" }],
    ["allowed CIDRs", { allowedCidrs: [] }],
    ["alarm topics", { alarmTopicArns: ["arn:aws:sns:us-east-1:111122223333:alarms"] }],
    ["alarm topics: at most 5", { alarmTopicArns: Array(6).fill(CONTROL_PLANE.alarmTopicArns[0]) }],
  ])("is refused by its %s", (field, change) => {
    expect(() => stackOf(change)).toThrow(ControlPlaneSpecError);
    expect(() => stackOf(change)).toThrow(field);
  });
});
