import { expect, test } from "vitest";
import { assertShallow } from "./json-depth.ts";

const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;

test("JSON nests up to the bound, wherever its brackets close", () => {
  assertShallow(nested(32));
  assertShallow(`[${Array.from({ length: 1_000 }, () => '{"a":[]}').join(",")}]`);
  expect(() => assertShallow(nested(33))).toThrow("deeper than 32");
  expect(() => assertShallow(`{"a":`.repeat(33))).toThrow("deeper than 32");
});

test("brackets in strings do not count, and a quote in one does not end it", () => {
  assertShallow(JSON.stringify(`"${"[".repeat(100)}\\`));
  expect(() => assertShallow(`["\\\\",${nested(33)}]`)).toThrow("deeper");
});
