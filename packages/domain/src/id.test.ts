import fc from "fast-check";
import { expect, test } from "vitest";
import { ID_PREFIXES, isId, newId } from "./id.ts";

test("a new id is well-formed and only of its own kind", () => {
  for (const prefix of ID_PREFIXES) {
    const id = newId(prefix);
    for (const other of ID_PREFIXES) expect(isId(other, id)).toBe(other === prefix);
  }
});

test("ids sort by their creation time", () => {
  fc.assert(
    fc.property(fc.nat(2 ** 40), fc.integer({ min: 1, max: 2 ** 30 }), (at, later) => {
      expect(newId("clu", at) < newId("clu", at + later)).toBe(true);
    }),
  );
});

test("foreign strings are no ids", () => {
  for (const bad of [
    "",
    "clu",
    "clu_",
    "clu_01",
    `clu_${"8".repeat(26)}`,
    `clu_${"I".repeat(26)}`,
  ]) {
    expect(isId("clu", bad)).toBe(false);
  }
  expect(isId("clu", `${newId("clu")} `)).toBe(false);
});
