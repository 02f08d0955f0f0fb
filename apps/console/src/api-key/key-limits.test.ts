import { expect, test } from "vitest";
import { addressesIn, limitsOf } from "./key-limits.ts";

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
