/**
 * Rules and policies of a stack's security groups and roles that are not in the stack: added by hand, or by AWS
 * to a group whose creation was interrupted. Rules and policies are separate resources, so Terraform only checks
 * those that it created: a rule that opens a group to the world is no drift for it, and no plan of Terraform's
 * removes it.
 */
import type { AttributeChange, PlannedChange } from "../change-plan.ts";

interface StateResource {
  readonly address: string;
  readonly type: string;
  readonly values: Readonly<Record<string, unknown>>;
}

/** One rule of a security group, for one peer. */
export interface AddedRule {
  readonly kind: "ingress" | "egress";
  /** Of the group. */
  readonly groupId: string;
  /** Name or number; `-1` is every one. */
  readonly protocol: string;
  /** Ports, or type and code of ICMP. */
  readonly from: number;
  readonly to: number;
  readonly peer:
    | { readonly cidrIpv4: string }
    | { readonly cidrIpv6: string }
    | { readonly prefixListId: string }
    /** With its owner in front where that is another account: `111122223333/sg-1`. */
    | { readonly group: string };
}

/** A policy of a role: its name where it is the role's own, its ARN where it is attached. */
export interface AddedPolicy {
  readonly kind: "inline_policy" | "managed_policy_arns";
  readonly role: string;
  readonly policy: string;
}

/** What was added to one resource of the stack, by the attribute that shows it. */
export type Addition = { readonly address: string } & (AddedRule | AddedPolicy);

const GROUPS = new Set(["aws_security_group", "aws_default_security_group"]);
const ROLE_POLICY = "aws_iam_role_policy";
const ROLE_ATTACHMENT = "aws_iam_role_policy_attachment";
const DIRECTIONS = ["ingress", "egress"] as const;

/** Everything that had been added by hand when a plan, refresh-only or not, was made. */
export function additionsIn(plan: unknown): Addition[] {
  const resources = resourcesIn(plan);
  const ofStack = [...resources, ...policiesMadeBy(plan)];
  return resources.flatMap((resource) => additionsTo(resource, ofStack));
}

/** As drift: attributes from nothing to what was added. */
export function addedByHand(plan: unknown): PlannedChange[] {
  return changesOf(additionsIn(plan), (text) => ({ before: null, after: text }));
}

/** As a plan that removes them: attributes from what was added to nothing. */
export function takenBack(additions: readonly Addition[]): PlannedChange[] {
  return changesOf(additions, (text) => ({ before: text, after: null }));
}

/** A plan's changes plus the removals, except on resources that it deletes or replaces. */
export function withTakenBack(
  planned: readonly PlannedChange[],
  additions: readonly Addition[],
): PlannedChange[] {
  const beside = new Map(takenBack(additions).map((each) => [each.address, each.attributes]));
  const changes = planned.map((change) => {
    const attributes = beside.get(change.address) ?? [];
    beside.delete(change.address);
    if (change.action === "delete" || change.action === "replace") return change;
    return { ...change, attributes: [...change.attributes, ...attributes] };
  });
  return [...changes, ...takenBack(additions.filter(({ address }) => beside.has(address)))];
}

/** The plan for the policy's rules: without what it removes, which does not outlive it. */
export function withoutAdditions(plan: unknown, additions: readonly Addition[]): unknown {
  if (additions.length === 0) return plan;
  const gone = (address: unknown) =>
    new Set(additions.filter((each) => each.address === address).map(({ kind }) => String(kind)));
  const planned = record(record(plan).planned_values);
  const module = record(planned.root_module);
  const resources = listOf(module.resources).map((each) => {
    const { values, ...resource } = record(each);
    const names = gone(resource.address);
    const kept = Object.entries(record(values)).filter(([name]) => !names.has(name));
    return { ...resource, values: Object.fromEntries(kept) };
  });
  const root_module = { ...module, resources };
  return { ...record(plan), planned_values: { ...planned, root_module } };
}

function changesOf(
  additions: readonly Addition[],
  valuesOf: (text: string) => Omit<AttributeChange, "name">,
): PlannedChange[] {
  const byAddress = Map.groupBy(additions, ({ address }) => address);
  return [...byAddress].map(([address, all]) => {
    const attributes = [...Map.groupBy(all, ({ kind }) => kind)].flatMap(([name, some]) => {
      // One attribute each, because each is approved separately.
      const texts = [...new Set(some.map(textOf))].sort();
      return texts.map((text) => ({ name, ...valuesOf(text) }));
    });
    return { address, type: typeOf(address), action: "update", attributes };
  });
}

function additionsTo(resource: StateResource, all: readonly StateResource[]): Addition[] {
  const { address, type } = resource;
  if (GROUPS.has(type)) {
    return DIRECTIONS.flatMap((direction) => {
      const made = new Set(rulesFor(resource, direction, all));
      return rulesIn(resource, direction)
        .filter((rule) => !made.has(textOf(rule)))
        .map((rule) => ({ address, ...rule }));
    });
  }
  if (type !== "aws_iam_role") return [];
  const { inline_policy: inline, managed_policy_arns: managed } = resource.values;
  const role = text(resource.values.name);
  const ofRole = (kind: AddedPolicy["kind"], names: string[], other: string, key: string) => {
    const made = new Set(
      all
        .filter((each) => each.type === other && each.values.role === role)
        .map(({ values }) => text(values[key])),
    );
    return names
      .filter((name) => name !== "" && !made.has(name))
      .map((policy): Addition => ({ address, kind, role, policy }));
  };
  const names = listOf(inline).map((each) => text(record(each).name));
  const arns = listOf(managed).map(text);
  return [
    ...ofRole("inline_policy", names, ROLE_POLICY, "name"),
    ...ofRole("managed_policy_arns", arns, ROLE_ATTACHMENT, "policy_arn"),
  ];
}

/** A policy by its name; a rule as `tcp 9092-9092 10.0.0.0/16`. */
function textOf(addition: AddedRule | AddedPolicy): string {
  if ("policy" in addition) return addition.policy;
  const { protocol, from, to, peer } = addition;
  return ruleText(protocol, from, to, Object.values(peer)[0]);
}

/** The rules that the group has, one for each peer. */
function rulesIn({ values }: StateResource, kind: AddedRule["kind"]): AddedRule[] {
  const groupId = text(values.id);
  return listOf(values[kind]).flatMap((each) => {
    const rule = record(each);
    const peers = [
      ...listOf(rule.cidr_blocks).map((cidr) => ({ cidrIpv4: text(cidr) })),
      ...listOf(rule.ipv6_cidr_blocks).map((cidr) => ({ cidrIpv6: text(cidr) })),
      ...listOf(rule.prefix_list_ids).map((id) => ({ prefixListId: text(id) })),
      ...listOf(rule.security_groups).map((id) => ({ group: text(id) })),
      ...(rule.self === true ? [{ group: groupId }] : []),
    ];
    const [from, to] = [Number(rule.from_port), Number(rule.to_port)];
    const protocol = text(rule.protocol);
    return peers.map((peer) => ({ kind, groupId, protocol, from, to, peer }));
  });
}

/** The group's rules in the stack. */
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
  // A group of another account is prefixed with its owner.
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

/**
 * The policies of roles that the plan creates. A role may have them already: putting a policy twice is not an
 * error, and a missing record is not searched for. Removing one would leave the role's users without their rights
 * until Terraform puts it again. Rules differ: AWS rejects a duplicate, so the first one has to be removed.
 */
function policiesMadeBy(plan: unknown): StateResource[] {
  return listOf(record(plan).resource_changes).flatMap((each) => {
    const { address, type, mode, change } = record(each);
    if (mode !== "managed" || (type !== ROLE_POLICY && type !== ROLE_ATTACHMENT)) return [];
    return [{ address: text(address), type, values: record(record(change).after) }];
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

function typeOf(address: string): string {
  return address.split(".")[0] ?? "";
}
