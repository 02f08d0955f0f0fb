import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import { contracts } from "@millrace/contract";
import { runSql, setUp } from "@millrace/testkit";
import { describe, expect, test, vi } from "vitest";
import { apiFixture, call, hasBody, keyOfRole } from "./fixture.ts";

const fixture = apiFixture();

describe.each(contracts)("$method $path", (contract) => {
  const path = contract.path.replaceAll(/\{\w+\}/g, "x");

  test.each([
    ["no credentials", {}],
    ["a key that nobody has", { authorization: `Bearer mrk_${"a".repeat(43)}` }],
    ["something that is no key", { authorization: "Bearer hello" }],
    ["another scheme", { authorization: "Basic b3VyczpvdXJz" }],
  ])("%s", async (_, headers) => {
    const body = hasBody(contract) ? { no_such_field: 1 } : undefined;
    const answer = await call(fixture.app, contract.method, path, {
      headers,
      ...(body && { body }),
    });
    expect(answer.status).toBe(401);
    expect(answer.headers.get("content-type")).toBe("application/problem+json");
    expect(answer.body).toMatchObject({ code: "unauthenticated", errors: [] });
  });
});

describe("keys", () => {
  let apiKey: string;
  setUp(async () => {
    apiKey = await keyOfRole(fixture.db, fixture.ours, "viewer");
  });

  test("a live key is let in, a revoked one is out with the next request", async () => {
    const { app, ours } = fixture;
    const me = await call(app, "GET", "/v1/me", { apiKey });
    expect(me.status).toBe(200);
    const id = me.body.api_key.id;
    const removed = await call(app, "DELETE", `/v1/api-keys/${id}`, { apiKey: ours.apiKey });
    expect(removed.status).toBe(204);
    const answer = await call(app, "GET", "/v1/me", { apiKey });
    expect(answer.status).toBe(401);
    expect(answer.body.detail).toMatch(/^This API key was revoked at 2\d{3}-.*Z\.$/);
    const wrong = `${apiKey.slice(0, -1)}${apiKey.endsWith("a") ? "b" : "a"}`;
    const unknown = await call(app, "GET", "/v1/me", { apiKey: wrong });
    expect(unknown.body.detail).toBe("The credentials are missing or invalid.");
  });

  test("an expired key is out", async () => {
    const { app, ours } = fixture;
    const soon = new Date(Date.now() + 60_000).toISOString();
    const made = await call(app, "POST", "/v1/api-keys", {
      apiKey: ours.apiKey,
      body: { name: "brief", expires_at: soon },
    });
    expect(made.status).toBe(201);
    const use = () => call(app, "GET", "/v1/me", { apiKey: made.body.secret });
    expect((await use()).status).toBe(200);
    await runSql(
      fixture.ownerUrl,
      `UPDATE api_key SET expires_at = now() - interval '1 second' WHERE id = '${made.body.id}'`,
    );
    const answer = await use();
    expect(answer.status).toBe(401);
    expect(answer.body.detail).toMatch(/^This API key expired at 2\d{3}-.*Z\.$/);
  });

  test("a good cookie does not save a bad key", async () => {
    const cookie = await signIn(fixture.ours.email, fixture.ours.password);
    const headers = { cookie, authorization: "Bearer nope" };
    expect((await call(fixture.app, "GET", "/v1/me", { headers })).status).toBe(401);
  });
});

describe("sign-in", () => {
  test("the right password opens a session, and signing out ends it", async () => {
    const cookie = await signIn(fixture.ours.email, fixture.ours.password);
    const headers = { cookie, origin: "http://localhost:3000" };
    const me = await call(fixture.app, "GET", "/v1/me", { headers });
    expect(me.body.user.email).toBe(fixture.ours.email);
    await call(fixture.app, "POST", "/api/auth/sign-out", { headers, body: {} });
    expect((await call(fixture.app, "GET", "/v1/me", { headers })).status).toBe(401);
  });

  test("a wrong password and an unknown person get the same words", async () => {
    const answers = await Promise.all(
      ["ours@example.com", "nobody@example.com"].map((email) =>
        call(fixture.app, "POST", "/api/auth/sign-in/email", {
          body: { email, password: "not the password" },
        }),
      ),
    );
    expect(answers.map((answer) => answer.status)).toEqual([401, 401]);
    expect(answers[0]?.body).toEqual(answers[1]?.body);
    expect(answers.some((answer) => answer.headers.has("set-cookie"))).toBe(false);
  });

  test("an unknown person costs the same work as a wrong password: no shorter answer names accounts", async () => {
    const costs: unknown[] = [];
    const scrypt = vi.spyOn(crypto, "scrypt");
    // Modules that import the function by its name get the spy, too.
    syncBuiltinESMExports();
    try {
      for (const email of ["ours@example.com", "nobody@example.com"]) {
        scrypt.mockClear();
        const body = { email, password: "not the password" };
        await call(fixture.app, "POST", "/api/auth/sign-in/email", { body });
        costs.push(scrypt.mock.calls.map(([, , length, options]) => ({ length, options })));
      }
    } finally {
      scrypt.mockRestore();
      syncBuiltinESMExports();
    }
    expect(costs[0]).toHaveLength(1);
    expect(costs[1]).toEqual(costs[0]);
  });

  test("the console is the console by this machine's name and by its address", async () => {
    const { email, password } = fixture.ours;
    const statuses = [
      "http://localhost:3000",
      "http://127.0.0.1:3000",
      "http://127.0.0.1:3001",
    ].map(async (origin) => {
      const request = { body: { email, password }, headers: { origin, cookie: "a=b" } };
      return (await call(fixture.app, "POST", "/api/auth/sign-in/email", request)).status;
    });
    expect(await Promise.all(statuses)).toEqual([200, 200, 403]);
  });

  test("another site's page can end nobody's session", async () => {
    const cookie = await signIn(fixture.ours.email, fixture.ours.password);
    const foreign = { cookie, origin: "http://evil.example" };
    const answer = await call(fixture.app, "POST", "/api/auth/sign-out", {
      headers: foreign,
      body: {},
    });
    expect(answer.status).toBe(403);
    expect((await call(fixture.app, "GET", "/v1/me", { headers: { cookie } })).status).toBe(200);
  });

  test.each(["sign-up/email", "update-user", "request-password-reset", "sign-in/social", "ok"])(
    "%s is not served",
    async (path) => {
      const answer = await call(fixture.app, "POST", `/api/auth/${path}`, { body: {} });
      expect(answer.status).toBe(404);
    },
  );

  test("nobody signs up by themselves", async () => {
    const body = { email: "new@example.com", name: "n", password: "long enough, this one" };
    const answer = await call(fixture.app, "POST", "/api/auth/sign-up/email", { body });
    expect(answer.status).toBe(404);
    expect(await fixture.db.organizations.findUserByEmail(body.email)).toBeUndefined();
  });
});

async function signIn(email: string, password: string): Promise<string> {
  const answer = await call(fixture.app, "POST", "/api/auth/sign-in/email", {
    body: { email, password },
  });
  expect(answer.status).toBe(200);
  const cookie = answer.headers.get("set-cookie") ?? "";
  expect(cookie).toMatch(/HttpOnly/);
  expect(cookie).toMatch(/SameSite=Lax/);
  return cookie.split(";")[0] ?? "";
}
