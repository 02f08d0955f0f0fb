import { expect, test } from "vitest";
import { type Acl, type AclQuestion, type AclSettings, aclsOfTemplate, decideAcl } from "./acl.ts";

const ENFORCED: AclSettings = { enabled: true, superUsers: new Set(), allowIfNoAcl: false };
const RULE: Acl = {
  principal: "User:alice",
  resourceType: "topic",
  resourceName: "orders",
  patternType: "literal",
  operation: "write",
  permission: "allow",
  host: "*",
};
const QUESTION: AclQuestion = {
  principal: "User:alice",
  operation: "write",
  resourceType: "topic",
  resourceName: "orders",
};
const deny = (rule: Partial<Acl>): Acl => ({ ...RULE, permission: "deny", ...rule });
const allow = (rule: Partial<Acl>): Acl => ({ ...RULE, ...rule });

test.each<[string, Acl[], Partial<AclQuestion>, string]>([
  ["the rule itself", [RULE], {}, "allowed_by_acl"],
  ["another user", [RULE], { principal: "User:bob" }, "no_acl_allows"],
  ["everybody", [allow({ principal: "User:*" })], {}, "allowed_by_acl"],
  ["another topic", [RULE], { resourceName: "orders-2" }, "no_acl_for_resource"],
  ["a prefix", [allow({ patternType: "prefixed", resourceName: "ord" })], {}, "allowed_by_acl"],
  ["a name that is a prefix", [allow({ resourceName: "ord" })], {}, "no_acl_for_resource"],
  ["every topic", [allow({ resourceName: "*" })], {}, "allowed_by_acl"],
  [
    "a prefix * is no wildcard",
    [allow({ resourceName: "*", patternType: "prefixed" })],
    {},
    "no_acl_for_resource",
  ],
  ["a group of this name", [allow({ resourceType: "group" })], {}, "no_acl_for_resource"],
  ["another operation", [allow({ operation: "read" })], {}, "no_acl_allows"],
  ["all operations", [allow({ operation: "all" })], {}, "allowed_by_acl"],
  ["write implies describe", [RULE], { operation: "describe" }, "allowed_by_acl"],
  ["describe implies nothing", [allow({ operation: "describe" })], {}, "no_acl_allows"],
  [
    "alter_configs implies describe_configs",
    [allow({ operation: "alter_configs" })],
    { operation: "describe_configs" },
    "allowed_by_acl",
  ],
  ["a denial wins", [RULE, deny({ resourceName: "*" })], {}, "denied_by_acl"],
  ["a denial of everything wins", [RULE, deny({ operation: "all" })], {}, "denied_by_acl"],
  [
    "a denied write leaves describe",
    [deny({}), allow({ operation: "read" })],
    { operation: "describe" },
    "allowed_by_acl",
  ],
  ["a denial for another address", [RULE, deny({ host: "10.0.0.1" })], {}, "allowed_by_acl"],
  [
    "a denial for this address",
    [RULE, deny({ host: "10.0.0.1" })],
    { host: "10.0.0.1" },
    "denied_by_acl",
  ],
  ["no rules", [], {}, "no_acl_for_resource"],
])("%s", (_, acls, question, reason) => {
  const decision = decideAcl({ ...QUESTION, ...question }, acls, ENFORCED);
  expect(decision.reason).toBe(reason);
  expect(decision.allowed).toBe(reason === "allowed_by_acl");
});

test("the rule that names the resource most precisely is told", () => {
  const wildcard = allow({ resourceName: "*" });
  const short = allow({ resourceName: "o", patternType: "prefixed" });
  const long = allow({ resourceName: "ord", patternType: "prefixed" });
  const decide = (acls: Acl[]) => decideAcl(QUESTION, acls, ENFORCED).acl;
  expect(decide([wildcard, short, long, RULE])).toBe(RULE);
  expect(decide([wildcard, short, long])).toBe(long);
  expect(decide([short, wildcard])).toBe(short);
});

test("what the broker is configured with comes before the rules, or where there are none", () => {
  const denied = [deny({})];
  const superUsers = new Set(["User:alice"]);
  expect(decideAcl(QUESTION, denied, { ...ENFORCED, superUsers })).toMatchObject({
    allowed: true,
    reason: "super_user",
  });
  expect(decideAcl(QUESTION, denied, { ...ENFORCED, enabled: false }).allowed).toBe(true);
  const open = { ...ENFORCED, allowIfNoAcl: true };
  expect(decideAcl(QUESTION, [], open)).toMatchObject({ allowed: true });
  const other = [allow({ principal: "User:bob" })];
  expect(decideAcl(QUESTION, other, open)).toMatchObject({ allowed: false });
});

test("templates allow what their client does, and nothing else", () => {
  const common = { principal: "User:alice", topic: "orders", patternType: "literal", host: "*" };
  const producer = aclsOfTemplate({ ...common, template: "producer" } as never);
  const consumer = aclsOfTemplate({ ...common, template: "consumer", group: "billing" } as never);
  const may = (acls: Acl[], question: Partial<AclQuestion>) =>
    decideAcl({ ...QUESTION, ...question }, acls, ENFORCED).allowed;
  expect([may(producer, {}), may(producer, { operation: "read" })]).toEqual([true, false]);
  expect([may(consumer, {}), may(consumer, { operation: "read" })]).toEqual([false, true]);
  const group = { resourceType: "group", resourceName: "billing", operation: "read" } as const;
  expect([may(producer, group), may(consumer, group)]).toEqual([false, true]);
});
