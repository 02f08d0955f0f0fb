/**
 * What somebody added to the security groups and roles of a stack. Rules and policies are resources of
 * their own there, so Terraform looks at those that it made and never at others beside them: a group
 * that lets the world in has no drift for it.
 */
import type { AttributeChange, PlannedChange } from "../change-plan.ts";

interface StateResource {
  readonly address: string;
  readonly type: string;
  readonly values: Readonly<Record<string, unknown>>;
}

const GROUPS = new Set(["aws_security_group", "aws_default_security_group"]);
const DIRECTIONS = ["ingress", "egress"] as const;

/** In a refresh-only plan. Each is an attribute that was nothing, and is what was added. */
export function addedByHand(plan: unknown): PlannedChange[] {
  const resources = resourcesIn(plan);
  return resources.flatMap((resource) => {
    const attributes = attributesOf(resource, resources);
    const { address, type } = resource;
    return attributes.length === 0 ? [] : [{ address, type, action: "update", attributes }];
  });
}

function attributesOf(
  resource: StateResource,
  all: readonly StateResource[],
): readonly AttributeChange[] {
  if (GROUPS.has(resource.type)) {
    return DIRECTIONS.flatMap((direction) => {
      const made = new Set(rulesFor(resource, direction, all));
      return added(direction, rulesIn(resource, direction), made);
    });
  }
  if (resource.type !== "aws_iam_role") return [];
  const { name, inline_policy: inline, managed_policy_arns: managed } = resource.values;
  const ofRole = (type: string, key: string) =>
    new Set(
      all.flatMap(({ type: other, values }) =>
        other === type && values.role === name ? [String(values[key])] : [],
      ),
    );
  const inlineNames = listOf(inline)
    .map((each) => text(record(each).name))
    .filter((each) => each !== "");
  return [
    ...added("inline_policy", inlineNames, ofRole("aws_iam_role_policy", "name")),
    ...added(
      "managed_policy_arns",
      listOf(managed).map(String),
      ofRole("aws_iam_role_policy_attachment", "policy_arn"),
    ),
  ];
}

function added(
  name: string,
  found: readonly string[],
  made: ReadonlySet<string>,
): AttributeChange[] {
  const others = [...new Set(found)].filter((each) => !made.has(each)).sort();
  return others.length === 0 ? [] : [{ name, before: null, after: others.join(", ") }];
}

/** The rules that the group has, one for each peer, as `tcp 9092-9092 10.0.0.0/16`. */
function rulesIn({ values }: StateResource, direction: string): string[] {
  return listOf(values[direction]).flatMap((each) => {
    const rule = record(each);
    const peers = [
      ...listOf(rule.cidr_blocks),
      ...listOf(rule.ipv6_cidr_blocks),
      ...listOf(rule.prefix_list_ids),
      ...listOf(rule.security_groups),
      ...(rule.self === true ? [values.id] : []),
    ];
    return peers.map((peer) => ruleText(rule.protocol, rule.from_port, rule.to_port, peer));
  });
}

/** The rules that the stack made for the group. */
function rulesFor(
  { values: { id } }: StateResource,
  direction: string,
  all: readonly StateResource[],
): string[] {
  return all.flatMap(({ type, values }) => {
    if (type !== `aws_vpc_security_group_${direction}_rule`) return [];
    if (values.security_group_id !== id) return [];
    const peers = [
      values.cidr_ipv4,
      values.cidr_ipv6,
      values.prefix_list_id,
      values.referenced_security_group_id,
    ].filter((peer) => text(peer) !== "");
    const { ip_protocol: protocol, from_port: from, to_port: to } = values;
    return peers.map((peer) => ruleText(protocol, from, to, peer));
  });
}

function ruleText(protocol: unknown, from: unknown, to: unknown, peer: unknown): string {
  // A group of another account is written with its owner in front.
  const of = text(peer).replace(/^\d{12}\//, "");
  return text(protocol) === "-1"
    ? `all ${of}`
    : `${text(protocol)} ${text(from)}-${text(to)} ${of}`;
}

/** What existed when the plan was made. */
function resourcesIn(plan: unknown): StateResource[] {
  const state = record(record(plan).prior_state);
  const module = record(record(state.values).root_module);
  return listOf(module.resources).flatMap((each) => {
    const { address, type, mode, values } = record(each);
    if (mode !== "managed") return [];
    return [{ address: text(address), type: text(type), values: record(values) }];
  });
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  return value === undefined || value === null ? "" : String(value);
}
