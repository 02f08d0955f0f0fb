import { permissionsOf } from "@millrace/domain";
import { expect, test } from "vitest";
import { addressesIn, limitsOf, permissionsOfKey, permissionsToAsk } from "./key-limits.ts";

test("addresses are read as people separate them", () => {
  expect(addressesIn(" 10.0.0.0/8,192.0.2.1\n2001:db8::/32 ")).toEqual([
    "10.0.0.0/8",
    "192.0.2.1",
    "2001:db8::/32",
  ]);
  expect(addressesIn(" ")).toEqual([]);
});

test("limits are told in a few words", () => {
  const key = (permissions: string[] | null, allowed_addresses: string[]) =>
    limitsOf({ permissions, allowed_addresses } as Parameters<typeof limitsOf>[0]);
  expect(key(null, [])).toBe("");
  expect(key(["topic:read"], ["10.0.0.0/8"])).toBe("1 permission, from 10.0.0.0/8");
  expect(key(null, ["10.0.0.0/8", "192.0.2.1"])).toBe("from 2 address ranges");
});

test("a key of a service account whose role was lowered may do what the role grants", () => {
  const key = { role: "viewer", permissions: ["cluster:read", "cluster:delete"] } as const;
  expect(permissionsOfKey({ ...key, permissions: [...key.permissions] })).toEqual(["cluster:read"]);
  expect(permissionsOfKey({ role: "viewer", permissions: null })).toEqual([
    ...permissionsOf("viewer"),
  ]);
});

test("a new key gets no more of its role than its creator has", () => {
  const held = ["account:read", "cluster:read", "apikey:write"] as const;
  expect(permissionsToAsk("viewer", held, [])).toEqual(["account:read", "cluster:read"]);
  expect(permissionsToAsk("viewer", held, ["cluster:read"])).toEqual(["cluster:read"]);
  expect(permissionsToAsk("viewer", [...permissionsOf("admin")], [])).toBeUndefined();
});
