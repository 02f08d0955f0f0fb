import { expect, test } from "vitest";
import { returnPath } from "./return-path.ts";

const ORIGIN = "http://localhost:3000";

test("a path of the console is kept", () => {
  expect(returnPath("/clusters/clu_1/topics?a=b#c", ORIGIN)).toBe("/clusters/clu_1/topics?a=b#c");
});

test.each([
  null,
  "",
  "clusters",
  "https://evil.example",
  "javascript:alert(1)",
  "//evil.example",
  "/\\evil.example",
  "/\t/evil.example",
  "/\n//evil.example",
  "/\t\\evil.example",
  "/.//evil.example",
  "//[",
])("%j leads to the clusters, not elsewhere", (then) => {
  expect(returnPath(then, ORIGIN)).toBe("/clusters");
});
