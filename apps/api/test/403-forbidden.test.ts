import { contracts } from "@millrace/contract";
import { allows, ROLES } from "@millrace/domain";
import { beforeAll, describe, expect, test } from "vitest";
import { apiFixture, CONSOLE_URL, call, hasBody, keyOfRole } from "./fixture.ts";

const fixture = apiFixture();
const keys = new Map<string, string>();

beforeAll(async () => {
  for (const role of ROLES) keys.set(role, await keyOfRole(fixture.db, fixture.ours, role));
});

describe.each(contracts)("$name", (contract) => {
  const path = contract.path.replaceAll(/\{\w+\}/g, "x");
  test.each(ROLES)("role %s is refused exactly where it lacks the permission", async (role) => {
    const answer = await call(fixture.app, contract.method, path, {
      apiKey: keys.get(role) ?? "",
      ...(hasBody(contract) && { body: {} }),
    });
    expect(answer.status === 403).toBe(!allows(role, contract.permission));
  });
});

test("a role that may not write is refused even with a good request", async () => {
  const answer = await call(fixture.app, "POST", "/v1/clusters", {
    apiKey: keys.get("member") ?? "",
    body: { name: "mine" },
  });
  expect(answer.status).toBe(403);
  expect(answer.body.code).toBe("forbidden");
});

test("nobody makes a key that can do more than they can", async () => {
  const body = { name: "up", role: "owner" };
  const apiKey = keys.get("admin") ?? "";
  const answer = await call(fixture.app, "POST", "/v1/api-keys", { apiKey, body });
  expect(answer.status).toBe(403);
});

test("a foreign page cannot use a person's session to change things", async () => {
  const { app, ours } = fixture;
  const signIn = await call(app, "POST", "/api/auth/sign-in/email", {
    body: { email: ours.email, password: ours.password },
  });
  const cookie = signIn.headers.get("set-cookie")?.split(";")[0] ?? "";
  const post = (origin: string, path: string, body: object) =>
    call(app, "POST", path, { headers: { cookie, origin }, body });
  const foreign = "https://elsewhere.example";
  expect((await post(foreign, "/v1/api-keys", { name: "n" })).status).toBe(403);
  expect((await post(foreign, "/trpc/apiKey.create", { json: { name: "n" } })).status).toBe(403);
  expect((await post("null", "/v1/api-keys", { name: "n" })).status).toBe(403);
  expect((await post(CONSOLE_URL, "/v1/api-keys", { name: "n" })).status).toBe(201);
});
