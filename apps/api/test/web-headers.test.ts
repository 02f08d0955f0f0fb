import { Writable } from "node:stream";
import { pino } from "pino";
import { expect, test } from "vitest";
import { apiFixture, call, type Tenant } from "./fixture.ts";

const lines: string[] = [];
const log = pino(
  { level: "warn" },
  new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  }),
);
const plain = apiFixture({ log, rateLimit: true });
const secure = apiFixture({ origin: "https://millrace.example" });

function signIn(fixture: typeof plain, { email, password }: Tenant) {
  return call(fixture.app, "POST", "/api/auth/sign-in/email", { body: { email, password } });
}

test("over https the session cookie is bound to the host and to TLS", async () => {
  const answer = await signIn(secure, secure.ours);
  const cookie = answer.headers.get("set-cookie") ?? "";
  expect(cookie).toMatch(/^__Host-millrace\.session_token=/);
  for (const attribute of ["; Secure", "; HttpOnly", "; SameSite=Lax", "; Path=/"]) {
    expect(cookie).toContain(attribute);
  }
  expect(cookie).not.toContain("Domain");
  const me = await call(secure.app, "GET", "/v1/me", {
    headers: { cookie: cookie.split(";")[0] ?? "" },
  });
  expect(me.status).toBe(200);
  expect(me.headers.get("strict-transport-security")).toMatch(/^max-age=\d{8}/);
});

test("on this machine it has a plain name, and nobody is sent to https", async () => {
  const answer = await signIn(plain, plain.ours);
  expect(answer.headers.get("set-cookie")).toMatch(/^millrace\.session_token=/);
  expect(answer.headers.has("strict-transport-security")).toBe(false);
});

test("a session has a token of its own after each sign-in", async () => {
  const tokens = [await signIn(secure, secure.ours), await signIn(secure, secure.ours)].map(
    (answer) => answer.headers.get("set-cookie")?.split(";")[0],
  );
  expect(tokens[0]).not.toBe(tokens[1]);
});

test.each(["/v1/me", "/v1/openapi.json", "/trpc/region.list", "/nowhere", "/docs"])(
  "%s tells browsers to guess nothing, embed nothing and load nothing from elsewhere",
  async (path) => {
    const { headers } = await call(secure.app, "GET", path);
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("referrer-policy")).toBe("no-referrer");
    expect(headers.get("cross-origin-opener-policy")).toBe("same-origin");
    expect(headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
    expect(headers.get("strict-transport-security")).not.toBeNull();
  },
);

test("reports of violations are logged without queries, and no more than are read", async () => {
  const report = {
    "document-uri": "https://millrace.example/invitations?token=secret",
    "blocked-uri": "inline",
    "violated-directive": "script-src-elem",
    "line-number": 3,
    "script-sample": "alert(1)",
  };
  const send = (body: unknown) => call(plain.app, "POST", "/api/csp-reports", { body });
  expect((await send({ "csp-report": report })).status).toBe(204);
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? "").violation).toEqual({
    document: "https://millrace.example/invitations",
    blocked: "inline",
    directive: "script-src-elem",
    line: 3,
  });
  const body = { documentURL: "/clusters", effectiveDirective: "img-src" };
  const many = Array.from({ length: 50 }, () => ({ type: "csp-violation", body }));
  expect((await send(many)).status).toBe(204);
  expect(lines).toHaveLength(11);
  for (let sent = 0; sent < 20; sent += 1) await send(many);
  expect(lines.length).toBeLessThan(65);
  for (const odd of [null, "text", [{ type: "other" }], { "csp-report": [] }]) {
    expect((await send(odd)).status).toBe(204);
  }
  expect((await send("x".repeat(17_000))).status).toBe(413);
});
