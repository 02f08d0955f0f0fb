import { expect, test } from "vitest";
import { isAddressIn, isAddressRange, isRangeIn } from "./address-range.ts";

test.each(["10.0.0.1", "10.0.0.0/8", "0.0.0.0/0", "::1", "2001:db8::/32"])("%s", (text) => {
  expect(isAddressRange(text)).toBe(true);
});

test.each([
  "",
  "10.0.0",
  "10.0.0.0/33",
  "10.0.0.0/",
  "10.0.0.0/-1",
  "::/129",
  "fe80::1%eth0",
  "a/8",
])("%j is no range", (text) => {
  expect(isAddressRange(text)).toBe(false);
  expect(isAddressIn("10.0.0.1", [text])).toBe(false);
});

test("an address is in its range and in no other one", () => {
  expect(isAddressIn("10.1.2.3", ["192.0.2.0/24", "10.0.0.0/8"])).toBe(true);
  expect(isAddressIn("11.1.2.3", ["10.0.0.0/8"])).toBe(false);
  expect(isAddressIn("2001:db8::7", ["2001:db8::/32"])).toBe(true);
  expect(isAddressIn("10.1.2.3", ["::/0"])).toBe(false);
  expect(isAddressIn("nonsense", ["0.0.0.0/0"])).toBe(false);
});

test("a range is in a wider one and not the other way round", () => {
  expect(isRangeIn("10.1.0.0/16", "10.0.0.0/8")).toBe(true);
  expect(isRangeIn("10.0.0.0/8", "10.0.0.0/16")).toBe(false);
  expect(isRangeIn("10.0.0.0/8", "10.0.0.0/8")).toBe(true);
});
