/**
 * Starts the services as soon as Terraform may: with what their resources refer to and depend on, and nothing else.
 * AWS starts tasks then, and they fail where something that they need comes a moment later.
 */
import { describe, expect, test } from "vitest";
import { CONTROL_PLANE } from "../../../test/control-plane-fixture.ts";
import {
  type Attributes,
  OFFLINE,
  reference,
  resource,
  type StackDocument,
} from "../../../test/stack-fixture.ts";
import { synthesizeControlPlane } from "./control-plane-stack.ts";

const stack: StackDocument = JSON.parse(synthesizeControlPlane(CONTROL_PLANE, OFFLINE));
const ADDRESS = /\baws_[a-z0-9_]+\.[A-Za-z0-9_-]+/g;

const all = new Map<string, Attributes>(
  Object.entries(stack.resource).flatMap(([type, byName]) =>
    Object.entries(byName).map(([name, attributes]) => [`${type}.${name}`, attributes] as const),
  ),
);

/** Resources that Terraform has made, at the latest, when it makes this one. */
function before(address: string, seen = new Set<string>()): Set<string> {
  for (const [found] of JSON.stringify(all.get(address)).matchAll(ADDRESS)) {
    if (found === address || seen.has(found) || !all.has(found)) continue;
    seen.add(found);
    before(found, seen);
  }
  return seen;
}

/** Addresses of a type's resources that `matches` picks; at least one. */
function those(type: string, matches: (attributes: Attributes, name: string) => boolean): string[] {
  const found = Object.entries(stack.resource[type] ?? {})
    .filter(([name, attributes]) => matches(attributes, name))
    .map(([name]) => `${type}.${name}`);
  expect(found, type).not.toEqual([]);
  return found;
}

const idOf = (address: string) => reference(`${address}.id`);
const mentions = (attributes: Attributes, text: string) =>
  JSON.stringify(attributes).includes(text);

/** From the tasks' subnets to the NAT gateway, and from there to the internet. */
function wayOut(): string[] {
  those("aws_route", (route) => mentions(route, "aws_nat_gateway"));
  const everyOne = ["aws_route", "aws_route_table_association"];
  return everyOne.flatMap((type) => those(type, () => true));
}

/** Of a service's own firewall, and of those that must admit it. */
function firewallRules(service: string): string[] {
  const group = idOf(`aws_security_group.${service}_firewall_group`);
  return [
    ...those("aws_vpc_security_group_egress_rule", (rule) => rule.security_group_id === group),
    ...those(
      "aws_vpc_security_group_ingress_rule",
      (rule) => rule.security_group_id === group || rule.referenced_security_group_id === group,
    ),
  ];
}

const SERVICES = ["api", "console", "gateway", "worker"];
const serviceOf = (name: string) => resource(stack, "aws_ecs_service", `${name}_service`);
const taskOf = (name: string) => resource(stack, "aws_ecs_task_definition", `${name}_task`);

describe.each(SERVICES)("%s starts after", (name) => {
  const present = before(`aws_ecs_service.${name}_service`);
  const missing = (needed: string[]) => needed.filter((address) => !present.has(address));

  test("the way to the registry of its image", () => {
    expect(missing(wayOut())).toEqual([]);
  });

  test("what its firewall lets through, and those that must admit it", () => {
    expect(missing(firewallRules(name))).toEqual([]);
  });

  test("the rights of its roles", () => {
    const task = taskOf(name);
    const roles = [task.execution_role_arn, task.task_role_arn].map((arn) =>
      String(arn).replace(".arn}", ".id}"),
    );
    const policies = those("aws_iam_role_policy", ({ role }) => roles.includes(String(role)));
    expect(missing(policies)).toEqual([]);
  });

  test("the log group that it writes to", () => {
    const [first] = JSON.parse(String(taskOf(name).container_definitions));
    const group = first.logConfiguration.options["awslogs-group"];
    expect(missing(those("aws_cloudwatch_log_group", (log) => log.name === group))).toEqual([]);
  });

  test("it is steady, or the apply fails: tasks of an earlier version are not success", () => {
    expect(taskOf(name).skip_destroy).toBe(true);
    expect(serviceOf(name)).toMatchObject({
      wait_for_steady_state: true,
      deployment_circuit_breaker: { enable: true, rollback: true },
      lifecycle: {
        postcondition: [
          {
            condition: reference(
              `(self.task_definition == aws_ecs_task_definition.${name}_task.arn)`,
            ),
          },
        ],
      },
    });
  });
});

test.each([
  ["api", "front-door_api-targets"],
  ["console", "front-door_console-targets"],
  ["gateway", "links_targets"],
])("%s starts after its targets have a load balancer", (name, group) => {
  const targets = reference(`aws_lb_target_group.${group}.arn`);
  expect(serviceOf(name).load_balancer).toMatchObject([{ target_group_arn: targets }]);
  const forwarding = [...all]
    .filter(([address]) => address.startsWith("aws_lb_listener"))
    .filter(([, attributes]) => mentions(attributes, targets))
    .map(([address]) => address);
  expect(forwarding).toHaveLength(1);
  expect(before(`aws_ecs_service.${name}_service`)).toContain(forwarding[0]);
});

test("the worker starts after its folder can be mounted in each of its subnets", () => {
  expect(mentions(taskOf("worker"), "efs_volume_configuration")).toBe(true);
  const mounts = those("aws_efs_mount_target", () => true);
  expect(mounts).toHaveLength(CONTROL_PLANE.zones.length);
  const present = before("aws_ecs_service.worker_service");
  expect(mounts.filter((mount) => !present.has(mount))).toEqual([]);
});

test("who calls a service by its name starts after it: a task knows only names older than itself", () => {
  const calls = SERVICES.flatMap((client) =>
    SERVICES.filter((server) => mentions(taskOf(client), `http://${server}:`)).map(
      (server) => [client, server] as const,
    ),
  );
  expect(calls).toEqual([
    ["api", "gateway"],
    ["console", "api"],
    ["worker", "gateway"],
  ]);
  for (const [client, server] of calls) {
    expect(before(`aws_ecs_service.${client}_service`)).toContain(
      `aws_ecs_service.${server}_service`,
    );
  }
});
