import fc from "fast-check";
import { expect, test } from "vitest";
import { isClusterName, isTopicName } from "./name.ts";

test("cluster names are DNS labels", () => {
  for (const good of ["a", "orders", "orders-2", `a${"b".repeat(62)}`]) {
    expect(isClusterName(good)).toBe(true);
  }
  for (const bad of ["", "2a", "-a", "a-", "A", "a_b", "a.b", `a${"b".repeat(63)}`, "a\n"]) {
    expect(isClusterName(bad)).toBe(false);
  }
});

test("topic names follow Kafka's rule and leave internal topics alone", () => {
  for (const good of ["t", "Orders.v1", "_x", "a-b_c.d", "x".repeat(249)]) {
    expect(isTopicName(good)).toBe(true);
  }
  for (const bad of ["", ".", "..", "__consumer_offsets", "a b", "a/b", "ä", "x".repeat(250)]) {
    expect(isTopicName(bad)).toBe(false);
  }
});

test("no accepted topic name can climb out of a folder", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 300 }), (name) => {
      if (isTopicName(name)) expect(name).not.toMatch(/[/\\\0]|^\.\.?$/);
    }),
  );
});
