import { describe, expect, test } from "vitest";
import { addedByHand, additionsIn, takenBack } from "./added-by-hand.ts";

const GROUP = "sg-1";

function plan(...resources: readonly (readonly [address: string, values: object])[]) {
  const listed = resources.map(([address, values]) => ({
    ...{ address, type: address.split(".")[0], mode: "managed", values },
  }));
  return { prior_state: { values: { root_module: { resources: listed } } } };
}

function permission(changes: object) {
  return {
    ...{ protocol: "tcp", from_port: 9092, to_port: 9092, self: false, description: "" },
    ...{ cidr_blocks: [], ipv6_cidr_blocks: [], prefix_list_ids: [], security_groups: [] },
    ...changes,
  };
}

function rule(changes: object) {
  return {
    ...{ security_group_id: GROUP, ip_protocol: "tcp", from_port: 9092, to_port: 9092 },
    ...{ cidr_ipv4: null, cidr_ipv6: null, prefix_list_id: null },
    ...{ referenced_security_group_id: null, ...changes },
  };
}

describe("a security group", () => {
  const INGRESS = "aws_vpc_security_group_ingress_rule";
  const EGRESS = "aws_vpc_security_group_egress_rule";

  test("with exactly the stack's rules, however AWS groups them, has no additions", () => {
    const group = {
      id: GROUP,
      ingress: [
        permission({ cidr_blocks: ["10.0.0.0/16", "10.1.0.0/16"], self: true }),
        permission({ from_port: 443, to_port: 443, security_groups: ["111122223333/sg-2"] }),
      ],
      egress: [permission({ protocol: "-1", from_port: 0, to_port: 0, prefix_list_ids: ["pl-1"] })],
    };
    const added = addedByHand(
      plan(
        ["aws_security_group.g", group],
        [`${INGRESS}.a`, rule({ cidr_ipv4: "10.0.0.0/16" })],
        [`${INGRESS}.b`, rule({ cidr_ipv4: "10.1.0.0/16" })],
        [`${INGRESS}.c`, rule({ referenced_security_group_id: GROUP })],
        [
          `${INGRESS}.d`,
          rule({ from_port: 443, to_port: 443, referenced_security_group_id: "sg-2" }),
        ],
        [
          `${EGRESS}.e`,
          rule({ ip_protocol: "-1", from_port: null, to_port: null, prefix_list_id: "pl-1" }),
        ],
      ),
    );
    expect(added).toEqual([]);
  });

  test("that was opened to the world by hand shows the rule", () => {
    const open = permission({ cidr_blocks: ["10.0.0.0/16", "0.0.0.0/0"] });
    const v6 = permission({ protocol: "-1", ipv6_cidr_blocks: ["::/0"] });
    const added = addedByHand(
      plan(
        ["aws_security_group.g", { id: GROUP, ingress: [open], egress: [v6] }],
        [`${INGRESS}.a`, rule({ cidr_ipv4: "10.0.0.0/16" })],
        // A rule of another group, or of the other direction, is none of this one.
        [`${INGRESS}.b`, rule({ security_group_id: "sg-9", cidr_ipv4: "0.0.0.0/0" })],
        [`${EGRESS}.c`, rule({ cidr_ipv4: "0.0.0.0/0" })],
      ),
    );
    expect(added).toEqual([
      {
        ...{ address: "aws_security_group.g", type: "aws_security_group", action: "update" },
        attributes: [
          { name: "ingress", before: null, after: "tcp 9092-9092 0.0.0.0/0" },
          { name: "egress", before: null, after: "all ::/0" },
        ],
      },
    ]);
  });
});

test("several additions are shown and removed separately", () => {
  const ingress = [permission({ cidr_blocks: ["10.9.0.0/16", "0.0.0.0/0"] })];
  const opened = plan(["aws_security_group.g", { id: GROUP, ingress, egress: [] }]);
  const texts = ["tcp 9092-9092 0.0.0.0/0", "tcp 9092-9092 10.9.0.0/16"];
  expect(addedByHand(opened)[0]?.attributes).toEqual(
    texts.map((after) => ({ name: "ingress", before: null, after })),
  );
  expect(takenBack(additionsIn(opened))[0]?.attributes).toEqual(
    texts.map((before) => ({ name: "ingress", before, after: null })),
  );
});

test("a role shows policies that are not in the stack", () => {
  const role = {
    name: "slot",
    inline_policy: [
      { name: "ours", policy: "{}" },
      { name: "theirs", policy: "{}" },
    ],
    managed_policy_arns: ["arn:aws:iam::aws:policy/AdministratorAccess"],
  };
  const [change] = addedByHand(
    plan(
      ["aws_iam_role.slot", role],
      ["aws_iam_role_policy.ours", { role: "slot", name: "ours" }],
      ["aws_iam_role_policy.other", { role: "other", name: "theirs" }],
    ),
  );
  expect(change?.attributes).toEqual([
    { name: "inline_policy", before: null, after: "theirs" },
    {
      name: "managed_policy_arns",
      before: null,
      after: "arn:aws:iam::aws:policy/AdministratorAccess",
    },
  ]);
});

describe("a policy that the same plan creates", () => {
  const ARN = "arn:aws:iam::aws:policy/ReadOnlyAccess";
  const role = {
    name: "slot",
    inline_policy: [{ name: "ours", policy: "{}" }],
    managed_policy_arns: [ARN],
  };
  const planned = (address: string, after: object | null, actions = ["create"]) => ({
    ...{ address, type: address.split(".")[0], mode: "managed" },
    change: { actions, before: null, after, after_unknown: {} },
  });
  const additionsBeside = (...resource_changes: object[]) =>
    additionsIn({ ...plan(["aws_iam_role.slot", role]), resource_changes });

  test("belongs to the stack, even if AWS had it before it was recorded", () => {
    const made = [
      planned("aws_iam_role_policy.ours", { role: "slot", name: "ours" }),
      planned("aws_iam_role_policy_attachment.a", { role: "slot", policy_arn: ARN }),
    ];
    expect(additionsBeside(...made)).toEqual([]);
  });

  test("is distinguished from another role's and from a deleted one", () => {
    const others = [
      planned("aws_iam_role_policy.ours", { role: "other", name: "ours" }),
      planned("aws_iam_role_policy_attachment.a", null, ["delete"]),
    ];
    expect(additionsBeside(...others).map(({ kind }) => kind)).toEqual([
      "inline_policy",
      "managed_policy_arns",
    ]);
  });

  test("differs from a rule of the same kind, which is removed because AWS rejects a duplicate", () => {
    const open = permission({ cidr_blocks: ["10.0.0.0/16"] });
    const group = plan(["aws_security_group.g", { id: GROUP, ingress: [open], egress: [] }]);
    const address = "aws_vpc_security_group_ingress_rule.a";
    const resource_changes = [planned(address, rule({ cidr_ipv4: "10.0.0.0/16" }))];
    expect(additionsIn({ ...group, resource_changes })).toHaveLength(1);
  });
});

test("text that is not a plan has no additions", () => {
  expect(addedByHand({})).toEqual([]);
  expect(addedByHand(undefined)).toEqual([]);
});
