/** Platform operators: what they see, and whom they act as. Their 403 and 404 tables are in the files of these numbers. */
import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { createIdentity } from "@millrace/auth";
import { addPlatformOperator } from "@millrace/core";
import { PlatformOperators } from "@millrace/db";
import {
  IMPERSONATION_MINUTES,
  IMPERSONATIONS_PER_HOUR_MAX,
  newId,
  type Role,
  type SessionId,
} from "@millrace/domain";
import { everyRow, runSql } from "@millrace/testkit";
import { expect, test } from "vitest";
import {
  type Answer,
  API_URL,
  apiFixture,
  CONSOLE_URL,
  call,
  impersonate,
  personOfRole,
  platformOperator,
  runningCluster,
  SECRET,
  sessionOf,
} from "./fixture.ts";
import { totpCode } from "./totp.ts";

const fixture = apiFixture({ impersonationMayWrite: true });
const ORGANIZATIONS = "/api/platform/organizations";

interface Operator {
  readonly email: string;
  readonly password: string;
  readonly cookie: string;
}

/** A request of the operator's browser. */
function ask(
  { cookie }: { cookie: string },
  method: string,
  path: string,
  body?: object,
): Promise<Answer> {
  const headers = { cookie, origin: CONSOLE_URL };
  return call(fixture.app, method, path, { headers, ...(body && { body }) });
}

const end = (operator: Operator) => ask(operator, "POST", "/api/platform/impersonations/end", {});

async function events(method: string): Promise<Answer["body"][]> {
  const { apiKey } = fixture.ours;
  const answer = await call(fixture.app, "GET", `/v1/audit-events?method=${method}`, { apiKey });
  return answer.body.items;
}

test("a platform operator lists organizations with the health of their clusters", async () => {
  const { cluster } = await runningCluster(fixture.db, fixture.theirs, "seen");
  const operator = await platformOperator(fixture);
  const { status, body } = await ask(operator, "GET", ORGANIZATIONS);
  expect(status).toBe(200);
  const { id, name, slug } = fixture.theirs.organization;
  const found = body.items.find((each: { id: string }) => each.id === id);
  expect(found).toEqual({
    ...{ id, name, slug, created_at: expect.any(String), members: 1 },
    clusters: [
      {
        ...{ id: cluster.id, name: "seen", region: "local", size: "dev", phase: "RUNNING" },
        ...{ ready: null, reason: null },
      },
    ],
  });
  const last = body.items.at(-1).id;
  expect((await ask(operator, "GET", `${ORGANIZATIONS}?after=${last}`)).body.items).toEqual([]);
});

test("for everybody else these routes do not exist", async () => {
  const { app, ours, ownerUrl } = fixture;
  expect((await call(app, "GET", ORGANIZATIONS)).status).toBe(401);
  const owner = await sessionOf(app, ours);
  const key = { apiKey: ours.apiKey };
  expect((await call(app, "GET", ORGANIZATIONS, key)).status).toBe(401);
  const removed = await platformOperator(fixture);
  const operators = await PlatformOperators.open(ownerUrl);
  expect(await operators.list()).toContain(removed.email);
  await operators.remove(removed.email);
  await expect(operators.remove(removed.email)).rejects.toThrow("is not a platform operator.");
  const reset = operators.reset(ours.email, () => Promise.reject(new Error("set a password")));
  await expect(reset).rejects.toThrow("is not a platform operator.");
  await operators.close();
  // A session that a tenant's identity provider opened has no power over other tenants.
  const sso = await platformOperator(fixture);
  await runSql(
    ownerUrl,
    `UPDATE session SET sso_organization_id = '${ours.organization.id}'
     WHERE user_id = (SELECT id FROM "user" WHERE email = '${sso.email}')`,
  );
  for (const sender of [owner, removed, sso]) {
    expect((await ask(sender, "GET", ORGANIZATIONS)).body.code).toBe("route_not_found");
    expect((await impersonate(fixture, sender)).body.code).toBe("route_not_found");
    expect((await ask(sender, "POST", "/api/platform/impersonations/end", {})).status).toBe(404);
  }
  const foreign = { cookie: owner.cookie, origin: "https://elsewhere.example" };
  const path = "/api/platform/impersonations";
  expect((await call(app, "POST", path, { headers: foreign, body: {} })).status).toBe(403);
});

test("an impersonation has a reason, an end and the rights of the member", async () => {
  const operator = await platformOperator(fixture);
  const { app, ours, theirs } = fixture;
  const begin = (body: object) => ask(operator, "POST", "/api/platform/impersonations", body);
  const organization_id = ours.organization.id;
  expect((await begin({ organization_id })).status).toBe(400);
  expect((await begin({ organization_id, reason: "short" })).status).toBe(400);
  const unknown = await impersonate(fixture, operator, { member_email: theirs.email });
  expect(unknown.body).toMatchObject({
    ...{ code: "not_found", detail: `There is no member ${theirs.email}.` },
  });
  const nowhere = newId("org");
  const absent = await impersonate(fixture, operator, { organization_id: nowhere });
  expect(absent.body).toMatchObject({
    ...{ code: "not_found", detail: `There is no organization ${nowhere}.` },
  });

  const before = Date.now();
  const begun = await impersonate(fixture, operator);
  expect(begun.status).toBe(201);
  const minutes = (Date.parse(begun.body.expires_at) - before) / 60_000;
  expect(Math.abs(minutes - IMPERSONATION_MINUTES)).toBeLessThan(1);
  const me = (await ask(operator, "GET", "/v1/me")).body;
  expect(me).toMatchObject({
    ...{ user: { email: ours.email }, organization: { id: organization_id }, role: "owner" },
    impersonation: {
      ...{ operator: operator.email, write: false, expires_at: begun.body.expires_at },
      reason: "ticket 4711: the cluster does not start",
    },
  });
  // Neither where the member is signed in, nor the member's other organizations, are to be seen.
  expect((await ask(operator, "GET", "/v1/me/sessions")).body.items).toEqual([]);
  expect(me.organizations).toHaveLength(1);
  const foreign = { cookie: operator.cookie, "millrace-organization": theirs.organization.id };
  expect((await call(app, "GET", "/v1/me", { headers: foreign })).status).toBe(404);
  const refused = await ask(operator, "POST", "/v1/environments", { name: "by-operator" });
  expect(refused.body).toMatchObject({
    detail: "This impersonation does not grant environment:write.",
    remedy: "Ask a member of the organization to do this.",
  });

  const viewer = await memberEmail("viewer");
  expect((await impersonate(fixture, operator, { member_email: viewer })).status).toBe(201);
  expect((await ask(operator, "GET", "/v1/me")).body.role).toBe("viewer");
});

async function memberEmail(role: Role): Promise<string> {
  const { cookie } = await personOfRole(fixture, role);
  return (await call(fixture.app, "GET", "/v1/me", { headers: { cookie } })).body.user.email;
}

test("the tenant's audit log names both, and why", async () => {
  const { db, ours } = fixture;
  const operator = await platformOperator(fixture);
  await impersonate(fixture, operator, { write: true });
  const [begun] = await events("impersonation.begin");
  expect(begun).toMatchObject({
    ...{ actor: { kind: "user", name: operator.email }, impersonator: null, result: "success" },
    request: { reason: "ticket 4711: the cluster does not start", write: true },
    after: { member: ours.email },
  });
  const { cluster } = await runningCluster(db, ours, "tuned-by-operator");
  const tuning = { block_cache_bytes: 64 * 1024 ** 2 };
  const tuned = await ask(operator, "PATCH", `/v1/clusters/${cluster.id}/tuning`, tuning);
  expect(tuned.status).toBe(200);
  expect((await ask(operator, "POST", "/v1/api-keys", { name: "kept" })).status).toBe(403);
  const [changed] = await events("tuning.update");
  expect(changed).toMatchObject({
    ...{ target_id: cluster.id, auth_method: "impersonation", result: "success" },
    actor: { kind: "user", name: `${ours.email} (by ${operator.email})` },
    impersonator: { id: begun.actor.id, name: operator.email },
  });
  const [denied] = await events("apiKey.create");
  expect(denied).toMatchObject({ result: "denied", impersonator: { name: operator.email } });
  expect((await end(operator)).status).toBe(204);
  const [ended] = await events("impersonation.end");
  expect(ended.actor).toEqual(begun.actor);
  const none = { seq: 0n, hash: Buffer.of() };
  const { brokenSeq } = await db.audit.verify(ours.organization.id, none, 1_000);
  expect(brokenSeq).toBeUndefined();
});

test("a session has one impersonation, and each has a line at its begin and at its end", async () => {
  const { ours, theirs, apiDb, ownerUrl } = fixture;
  const operator = await platformOperator(fixture);
  const lines = async (method: string) =>
    (await events(method)).filter(({ actor }) => actor.name === operator.email).length;
  const at = (organization_id: string) => impersonate(fixture, operator, { organization_id });
  const first = await at(ours.organization.id);
  expect((await at(theirs.organization.id)).status).toBe(201);
  expect([await lines("impersonation.begin"), await lines("impersonation.end")]).toEqual([1, 1]);

  const many = Array.from({ length: 3 }, () => at(ours.organization.id));
  expect((await Promise.all(many)).map(({ status }) => status)).toEqual([201, 201, 201]);
  expect([await lines("impersonation.begin"), await lines("impersonation.end")]).toEqual([4, 3]);

  // Ended already: its end says nothing about the active one.
  const rows = await everyRow(ownerUrl);
  const sessionId = new RegExp(`${first.body.id},[^,]+,(ses_\\w+)`).exec(rows)?.[1] as SessionId;
  expect(await apiDb.platform.end(sessionId, first.body.id)).toBe(false);
  const active = await apiDb.platform.active(sessionId);
  expect(await apiDb.platform.end(newId("ses"), active!.id)).toBe(false);
  expect(await apiDb.platform.end(sessionId, active!.id)).toBe(true);
});

test("a platform operator begins a limited number of impersonations per hour", async () => {
  const operator = await platformOperator(fixture);
  expect((await impersonate(fixture, operator)).status).toBe(201);
  const [begun] = await events("impersonation.begin");
  for (let count = 1; count < IMPERSONATIONS_PER_HOUR_MAX; count += 1) {
    await fixture.apiDb.rateLimits.count(`impersonations|${begun.actor.id}`, 3_600_000, Date.now());
  }
  const refused = await impersonate(fixture, operator);
  expect(refused.status).toBe(429);
  expect(refused.body.detail).toBe("You can begin 20 impersonations per hour.");
});

test("impersonations are kept for 30 days", async () => {
  const { ownerUrl } = fixture;
  const ids: string[] = [];
  for (const days of [29, 31]) {
    const { id } = (await impersonate(fixture, await platformOperator(fixture))).body;
    ids.push(id);
    const ago = `now() - interval '${days} days'`;
    await runSql(ownerUrl, `UPDATE impersonation SET created_at = ${ago} WHERE id = '${id}'`);
  }
  const last = await impersonate(fixture, await platformOperator(fixture));
  const kept = await everyRow(ownerUrl);
  expect(kept).toContain(ids[0]);
  expect(kept).toContain(last.body.id);
  expect(kept).not.toContain(ids[1]);
});

test("an answer is not repeated to the operator's next impersonation", async () => {
  const { db, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "measured-by-operator");
  const operator = await platformOperator(fixture);
  const headers = { cookie: operator.cookie, origin: CONSOLE_URL, "idempotency-key": "again" };
  const body = { duration_seconds: 10 };
  const run = () =>
    call(fixture.app, "POST", `/v1/clusters/${cluster.id}/benchmarks`, { headers, body });
  await impersonate(fixture, operator, { write: true });
  const begun = await run();
  expect(begun.status).toBe(202);
  expect((await run()).body.id).toBe(begun.body.id);
  const developer = await memberEmail("developer");
  await impersonate(fixture, operator, { write: true, member_email: developer });
  const other = await run();
  expect([202, 409]).toContain(other.status);
  expect(other.body.id).not.toBe(begun.body.id);
});

test("an impersonation ends by itself, by hand, with its session, and with the operator's power", async () => {
  const { ownerUrl } = fixture;
  const status = async (operator: Operator) => (await ask(operator, "GET", "/v1/me")).status;
  const acting = async () => {
    const operator = await platformOperator(fixture);
    await impersonate(fixture, operator);
    expect(await status(operator)).toBe(200);
    return operator;
  };
  const byHand = await acting();
  await end(byHand);
  expect(await status(byHand)).toBe(404);
  expect((await end(byHand)).status).toBe(204);

  const signedOut = await acting();
  const endsBefore = (await events("impersonation.end")).length;
  expect((await ask(signedOut, "POST", "/api/auth/sign-out", {})).status).toBe(200);
  expect(await status(signedOut)).toBe(401);
  expect(await events("impersonation.end")).toHaveLength(endsBefore + 1);
  const again = await sessionOf(fixture.app, signedOut);
  expect(await status({ ...signedOut, ...again })).toBe(404);

  const removed = await acting();
  const operators = await PlatformOperators.open(ownerUrl);
  await operators.remove(removed.email);
  await operators.close();
  expect(await status(removed)).toBe(403);

  const expired = await acting();
  await runSql(ownerUrl, "UPDATE impersonation SET expires_at = now()");
  expect(await status(expired)).toBe(404);
});

/** Runs the command line as an operator of the installation does. */
async function command(url: string, ...args: string[]) {
  const program = new URL("../src/platform-operator.ts", import.meta.url).pathname;
  const env = { ...process.env, DATABASE_URL: url, MILLRACE_AUTH_SECRET: SECRET };
  const child = spawn(process.execPath, [program, ...args], { env });
  const [out, error] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { out, error };
}

test("nobody becomes a platform operator with an account that somebody else may hold", async () => {
  const { app, apiDb: db, ours, ownerUrl } = fixture;
  const email = "ops@corp.example";
  const invitation = await call(app, "POST", "/v1/invitations", {
    ...{ apiKey: ours.apiKey, body: { email, role: "viewer" } },
  });
  const password = "known to the inviter";
  const body = { token: invitation.body.token, name: "Ops", password };
  const accepted = await call(app, "POST", "/api/invitations/accept", { body });
  expect(accepted.status).toBe(200);
  const { cookie } = await sessionOf(app, { email, password });
  const left = await ask({ cookie }, "POST", "/v1/me/leave", {
    organization_id: ours.organization.id,
  });
  expect(left.status).toBe(204);

  const identity = createIdentity({ db, secret: SECRET, apiUrl: API_URL, trustedOrigins: [] });
  const operators = await PlatformOperators.open(ownerUrl);
  const added = addPlatformOperator({ operators, identity }, email);
  await expect(added).rejects.toThrow("already has an account");
  expect(await operators.list()).not.toContain(email);
  await operators.close();
  expect((await ask({ cookie }, "GET", ORGANIZATIONS)).status).toBe(404);
});

test("a platform operator is created with the account, or neither is", async () => {
  const { apiDb: db, ownerUrl } = fixture;
  const identity = createIdentity({ db, secret: SECRET, apiUrl: API_URL, trustedOrigins: [] });
  const email = "half@corp.example";
  const operators = await PlatformOperators.open(ownerUrl);
  const crash = operators.add(email, async (store) => {
    await identity.createUser({ email, name: "Half", password: "a long enough password" }, store);
    throw new Error("crashed");
  });
  await expect(crash).rejects.toThrow("crashed");
  await operators.close();
  expect(await fixture.db.organizations.findUserByEmail(email)).toBeUndefined();
});

test("the command line resets a platform operator, with the owner's address alone", async () => {
  const { app, apiDbUrl, ownerUrl } = fixture;
  const { email, password, cookie } = await platformOperator(fixture);
  const begun = await ask({ cookie }, "POST", "/api/auth/two-factor/enable", { password });
  const code = totpCode(begun.body.totpURI);
  const enabled = await ask({ cookie }, "POST", "/api/auth/two-factor/verify-totp", { code });
  expect(enabled.status).toBe(200);
  const session = { cookie: enabled.headers.get("set-cookie")?.split(";")[0] ?? "" };
  expect((await ask(session, "GET", ORGANIZATIONS)).status).toBe(200);

  const answer = await command(ownerUrl, "reset", email.toUpperCase());
  expect(answer.error).toBe("");
  const reset = JSON.parse(answer.out);
  expect((await ask(session, "GET", ORGANIZATIONS)).status).toBe(401);
  const old = { body: { email, password } };
  expect((await call(app, "POST", "/api/auth/sign-in/email", old)).status).toBe(401);
  const again = await sessionOf(app, reset);
  expect((await ask(again, "GET", ORGANIZATIONS)).status).toBe(200);

  await expect(PlatformOperators.open(apiDbUrl)).rejects.toThrow(
    "DATABASE_URL is the address of the role millrace_api, which must not change",
  );
});

test("the command line says that a platform operator was removed, and that none is left", async () => {
  const { ownerUrl } = fixture;
  const { email } = await platformOperator(fixture);
  expect((await command(ownerUrl, "list")).out.split("\n")).toContain(email);
  const { out } = await command(ownerUrl, "remove", email);
  expect(out).toBe(`${email} is no longer a platform operator.\n`);
  await runSql(ownerUrl, "DELETE FROM platform_operator");
  const none = await command(ownerUrl, "list");
  expect(none).toEqual({ out: "", error: "There are no platform operators.\n" });
});
