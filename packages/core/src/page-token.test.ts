import { newId } from "@millrace/domain";
import { expect, test } from "vitest";
import { openCursor, type PageScope, PageTokens, sealCursor } from "./page-token.ts";

const tokens = new PageTokens("a secret of the tests, long enough");
const scope: PageScope = {
  organizationId: newId("org"),
  list: "clusters",
  filter: { environmentId: newId("env") },
};
const cursor = { createdAt: new Date("2026-01-02T03:04:05.678Z"), id: newId("clu") };

test("a position comes back to the millisecond", () => {
  expect(openCursor(tokens, scope, sealCursor(tokens, scope, cursor))).toEqual(cursor);
  expect(sealCursor(tokens, scope, undefined)).toBeUndefined();
  expect(openCursor(tokens, scope, undefined)).toBeUndefined();
});

test("a filter that is not set is the same as none", () => {
  const token = tokens.seal({ ...scope, filter: {} }, ["x"]);
  expect(tokens.open({ ...scope, filter: { environmentId: undefined } }, token)).toEqual(["x"]);
});

test.each<[string, PageScope]>([
  ["tenant", { ...scope, organizationId: newId("org") }],
  ["list", { ...scope, list: "operations" }],
  ["filter", { ...scope, filter: { environmentId: newId("env") } }],
  ["absence of a filter", { ...scope, filter: {} }],
])("a token is refused under another %s", (_, other) => {
  const token = tokens.seal(scope, ["x"]);
  expect(() => tokens.open(other, token)).toThrow(
    expect.objectContaining({ code: "invalid_page_token" }),
  );
});

test("a token with any bit changed is refused, and so is one of another secret", () => {
  const bytes = Buffer.from(tokens.seal(scope, ["x"]), "base64url");
  for (let index = 0; index < bytes.length; index += 1) {
    const forged = Buffer.from(bytes);
    forged.writeUInt8(forged.readUInt8(index) ^ 1, index);
    expect(() => tokens.open(scope, forged.toString("base64url"))).toThrow();
  }
  expect(() => tokens.open(scope, "")).toThrow();
  const foreign = new PageTokens("another secret of the tests, as long");
  expect(() => foreign.open(scope, tokens.seal(scope, ["x"]))).toThrow();
});
