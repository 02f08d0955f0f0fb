/** Sessions of people: seen, ended, and asked for another proof; passwords and second factors. */
import { newId } from "@millrace/domain";
import { lockTable, runSql } from "@millrace/testkit";
import { beforeEach, describe, expect, test } from "vitest";
import { type Answer, apiFixture, CONSOLE_URL, call } from "./fixture.ts";
import { frozenDate } from "./frozen-date.ts";
import { totpCode } from "./totp.ts";

const fixture = apiFixture();
frozenDate();
const PASSWORD = "a long enough password";
let email: string;
let userId: string;

/** Every test has a person of its own. */
beforeEach(async () => {
  const { app, ours } = fixture;
  email = `${newId("usr").toLowerCase()}@example.com`;
  const { body } = await call(app, "POST", "/v1/invitations", {
    ...{ apiKey: ours.apiKey, body: { email, role: "admin" } },
  });
  const account = { token: body.token, name: "Ada", password: PASSWORD };
  await call(app, "POST", "/api/invitations/accept", { body: account });
  userId = (await fixture.db.organizations.findUserByEmail(email))?.id ?? "";
});

type Session = { readonly cookie: string };

function auth(path: string, body: object, session?: Session): Promise<Answer> {
  const headers = { origin: CONSOLE_URL, ...session };
  return call(fixture.app, "POST", `/api/auth/${path}`, { headers, body });
}

/** Every cookie that an answer sets. */
function cookiesOf({ headers }: Answer): Session {
  return {
    cookie: headers
      .getSetCookie()
      .map((each) => each.split(";")[0])
      .filter((each) => !each?.endsWith("="))
      .join("; "),
  };
}

async function signIn(password = PASSWORD): Promise<Session> {
  const answer = await auth("sign-in/email", { email, password });
  expect(answer.status).toBe(200);
  return cookiesOf(answer);
}

const me = async (headers: Session) =>
  (await call(fixture.app, "GET", "/v1/me", { headers })).status;

async function sessionsOf(headers: Session) {
  return (await call(fixture.app, "GET", "/v1/me/sessions", { headers })).body.items;
}

/** That many minutes ago by the stopped clock of these tests. PostgreSQL's `now()` goes on. */
const ago = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();

/** As if everybody had signed in, or confirmed, so long ago. */
const proven = (minutes: number) =>
  runSql(
    fixture.ownerUrl,
    `UPDATE session SET authenticated_at = '${ago(minutes)}' WHERE user_id = '${userId}'`,
  );

/** Methods and results of what this person did, oldest first. */
async function log(): Promise<string[]> {
  await fixture.deferredWrites.settled();
  const { body } = await call(fixture.app, "GET", `/v1/audit-events?actor_id=${userId}`, {
    apiKey: fixture.ours.apiKey,
  });
  return body.items
    .map((event: { method: string; result: string }) => `${event.method} ${event.result}`)
    .reverse();
}

describe("sessions", () => {
  test("are listed with where they come from, and are ended one by one or all others at once", async () => {
    const { app } = fixture;
    const [first, second, third] = [await signIn(), await signIn(), await signIn()];
    const listed = await sessionsOf(third);
    expect(listed).toHaveLength(3);
    expect(listed.filter(({ current }: { current: boolean }) => current)).toHaveLength(1);
    expect(listed[0]).toMatchObject({ client_address: "127.0.0.1", user_agent: "" });
    const own = (await sessionsOf(first)).find(({ current }: { current: boolean }) => current);
    const path = `/v1/me/sessions/${own.id}`;
    const revoke = () => call(app, "DELETE", path, { headers: third });
    expect([(await revoke()).status, (await revoke()).status]).toEqual([204, 404]);
    expect(await me(first)).toBe(401);
    expect((await call(app, "DELETE", "/v1/me/sessions", { headers: third })).status).toBe(204);
    expect([await me(second), await me(third)]).toEqual([401, 200]);
  });

  test("of somebody else are not found", async () => {
    const { app, ours } = fixture;
    const headers = await signIn();
    const answer = await auth("sign-in/email", { email: ours.email, password: ours.password });
    const [{ id }] = await sessionsOf(cookiesOf(answer));
    expect((await call(app, "DELETE", `/v1/me/sessions/${id}`, { headers })).status).toBe(404);
  });

  test("end after a day without use, and after a week of use", async () => {
    const [idle, used] = [await signIn(), await signIn()];
    const all = await sessionsOf(used);
    const usedId = all.find(({ current }: { current: boolean }) => current).id;
    const idleId = all.find(({ current }: { current: boolean }) => !current).id;
    const unused = (id: string, hours: number) =>
      runSql(
        fixture.ownerUrl,
        `UPDATE session SET updated_at = '${ago(hours * 60)}' WHERE id = '${id}'`,
      );
    await unused(idleId, 25);
    await unused(usedId, 23);
    expect([await me(idle), await me(used)]).toEqual([401, 200]);
    // Nor does the identity library take it any more.
    const change = { currentPassword: PASSWORD, newPassword: "another long password" };
    expect((await auth("change-password", change, idle)).status).toBe(401);
    const [session] = await sessionsOf(used);
    const age = Date.parse(session.expires_at) - Date.parse(session.created_at);
    expect(Math.round(age / 86_400_000)).toBe(7);
    expect(Date.parse(session.last_used_at)).toBeGreaterThan(Date.now() - 60_000);
  });
});

describe("the audit log", () => {
  test("has sign-ins, failed ones, and sign-outs, without the password", async () => {
    await auth("sign-in/email", { email: email.toUpperCase(), password: "not the password" });
    await fixture.deferredWrites.settled();
    const session = await signIn();
    await auth("sign-out", {}, session);
    expect(await log()).toEqual([
      "invitation.accept success",
      "session.create failure",
      "session.create success",
      "session.delete success",
    ]);
    const { body } = await call(fixture.app, "GET", `/v1/audit-events?actor_id=${userId}`, {
      apiKey: fixture.ours.apiKey,
    });
    expect(body.items[1]).toMatchObject({ auth_method: "password", client_address: "127.0.0.1" });
    expect(JSON.stringify(body)).not.toContain("not the password");
  });

  test("is not filled by somebody who guesses", async () => {
    for (let tries = 0; tries < 8; tries += 1) {
      await auth("sign-in/email", { email, password: "not the password" });
    }
    expect((await log()).filter((line) => line === "session.create failure")).toHaveLength(5);
  });

  test("is not bypassed by a form, which the identity library would read too", async () => {
    const sent = { email, password: "not the password" };
    for (const [type, body] of [
      ["application/x-www-form-urlencoded", new URLSearchParams(sent).toString()],
      ["text/plain", JSON.stringify(sent)],
    ] as const) {
      const headers = { origin: CONSOLE_URL, "content-type": type };
      const init = { method: "POST", headers, body };
      expect((await fixture.app.request("/api/auth/sign-in/email", init)).status).toBe(415);
    }
    const charset = { "content-type": "Application/JSON; charset=utf-8", origin: CONSOLE_URL };
    const answer = await fixture.app.request("/api/auth/sign-in/email", {
      ...{ method: "POST", headers: charset, body: JSON.stringify(sent) },
    });
    expect(answer.status).toBe(401);
  });

  test("is not waited for by a failed sign-in, whose time would tell that the account exists", async () => {
    const unlock = await lockTable(fixture.ownerUrl, "audit_event");
    try {
      const wrong = await auth("sign-in/email", { email, password: "not the password" });
      expect(wrong.status).toBe(401);
    } finally {
      await unlock();
    }
    await fixture.deferredWrites.settled();
    expect(await log()).toContain("session.create failure");
  });
});

test("a new password ends every other session", async () => {
  const [other, session] = [await signIn(), await signIn()];
  const change = (currentPassword: string) =>
    auth("change-password", { currentPassword, newPassword: "another long password" }, session);
  expect((await change("not the password")).status).toBe(400);
  const changed = await change(PASSWORD);
  expect(changed.status).toBe(200);
  expect([await me(other), await me(session), await me(cookiesOf(changed))]).toEqual([
    401, 401, 200,
  ]);
  expect((await auth("sign-in/email", { email, password: PASSWORD })).status).toBe(401);
  await signIn("another long password");
  expect(await log()).toContain("account.changePassword success");
});

test("a new password is no proof of identity", async () => {
  const session = await signIn();
  await proven(16);
  const change = { currentPassword: PASSWORD, newPassword: "another long password" };
  const headers = cookiesOf(await auth("change-password", change, session));
  expect(await me(headers)).toBe(200);
  const body = { name: "k" };
  const answer = await call(fixture.app, "POST", "/v1/api-keys", { headers: { ...headers }, body });
  expect(answer.body.code).toBe("reauthentication_required");
});

test("a cookie that cannot be decoded is no session", async () => {
  const headers = { cookie: "millrace.two_factor=%" };
  const answer = await call(fixture.app, "GET", "/api/auth/get-session", { headers });
  expect([answer.status, answer.body]).toEqual([200, null]);
});

describe("destroying and granting", () => {
  const ACL = {
    ...{ principal: "User:ada", resource_type: "topic", resource_name: "t" },
    ...{ pattern_type: "literal", operation: "read", permission: "allow", host: "*" },
  };
  const CHANGES = [
    ["POST", "/v1/api-keys", { name: "k" }],
    ["POST", "/v1/invitations", { email: "x@example.com" }],
    ["PATCH", `/v1/members/${newId("mem")}`, { role: "viewer" }],
    ["DELETE", `/v1/members/${newId("mem")}`, undefined],
    ["DELETE", `/v1/clusters/${newId("clu")}`, undefined],
    ["DELETE", `/v1/clusters/${newId("clu")}/acls?${new URLSearchParams(ACL)}`, undefined],
    ["POST", `/v1/operations/${newId("op")}/approve`, { digest: "0".repeat(64) }],
  ] as const;

  test.each(CHANGES)("%s %s needs a recent proof of identity", async (method, path, body) => {
    const { app, ours } = fixture;
    const session = await signIn();
    const ask = (headers: Record<string, string>) =>
      call(app, method, path, { headers, ...(body && { body }) });
    const before = (await ask({ ...session })).status;
    expect([201, 404]).toContain(before);
    await proven(16);
    const refused = await ask({ ...session });
    expect([refused.status, refused.body.code]).toEqual([403, "reauthentication_required"]);
    expect((await call(app, "GET", "/v1/api-keys", { headers: { ...session } })).status).toBe(200);
    expect((await auth("confirm", { password: "not the password" }, session)).status).toBe(400);
    expect((await ask({ ...session })).status).toBe(403);
    expect((await auth("confirm", { password: PASSWORD }, session)).status).toBe(200);
    expect((await ask({ ...session })).status).toBe(before);
    // Programs cannot be asked.
    expect((await ask({ authorization: `Bearer ${ours.apiKey}` })).status).toBe(before);
    expect(await log()).toEqual(
      expect.arrayContaining(["session.confirm failure", "session.confirm success"]),
    );
  });

  test("nobody confirms from a foreign page, without a session, or by trying", async () => {
    const session = await signIn();
    const { app } = fixture;
    const foreign = { ...session, origin: "https://elsewhere.example" };
    const body = { password: PASSWORD };
    const path = "/api/auth/confirm";
    expect((await call(app, "POST", path, { headers: foreign, body })).status).toBe(403);
    expect((await auth("confirm", body)).status).toBe(401);
    for (let tries = 0; tries < 10; tries += 1) await auth("confirm", { password: "no" }, session);
    expect((await auth("confirm", body, session)).status).toBe(429);
  });
});

describe("a second factor", () => {
  async function enable() {
    const begun = await auth("two-factor/enable", { password: PASSWORD }, await signIn());
    expect(begun.status).toBe(200);
    const { totpURI, backupCodes } = begun.body;
    const session = await signIn();
    const code = totpCode(totpURI);
    const enabled = await auth("two-factor/verify-totp", { code }, session);
    expect(enabled.status).toBe(200);
    return { totpURI: totpURI as string, code, codes: backupCodes as string[], enabled };
  }

  test("is asked for at sign-in, and nothing works before it is given", async () => {
    const { totpURI } = await enable();
    const answer = await auth("sign-in/email", { email, password: PASSWORD });
    expect(answer.body).toMatchObject({ twoFactorRedirect: true });
    const challenge = cookiesOf(answer);
    expect(await me(challenge)).toBe(401);
    const wrong = await auth("two-factor/verify-totp", { code: "000000" }, challenge);
    expect(wrong.status).toBe(401);
    const trusting = { code: totpCode(totpURI, 1), trustDevice: true };
    expect((await auth("two-factor/verify-totp", trusting, challenge)).status).toBe(400);
    const right = await auth("two-factor/verify-totp", { code: totpCode(totpURI, 1) }, challenge);
    expect(await me(cookiesOf(right))).toBe(200);
    const lines = (await log()).slice(-4);
    expect(lines).toEqual([
      "account.enableSecondFactor success",
      "session.create started",
      "session.create failure",
      "session.create success",
    ]);
  });

  test("takes the proof of identity from sessions that never gave it", async () => {
    const earlier = await signIn();
    const { enabled } = await enable();
    const body = { name: "k" };
    const create = (headers: Session) =>
      call(fixture.app, "POST", "/v1/api-keys", { headers: { ...headers }, body });
    expect((await create(earlier)).body.code).toBe("reauthentication_required");
    expect((await create(cookiesOf(enabled))).status).toBe(201);
    expect(await me(earlier)).toBe(200);
  });

  test("has recovery codes that work once each", async () => {
    const { codes } = await enable();
    expect(codes).toHaveLength(10);
    const recover = async (code: string | undefined) => {
      const challenge = cookiesOf(await auth("sign-in/email", { email, password: PASSWORD }));
      return auth("two-factor/verify-backup-code", { code }, challenge);
    };
    const recovered = await recover(codes[0]);
    expect(await me(cookiesOf(recovered))).toBe(200);
    expect((await recover(codes[0])).status).toBe(401);
    expect((await recover(codes[1])).status).toBe(200);
  });

  test("is part of a proof of identity", async () => {
    const { totpURI, enabled } = await enable();
    const session = cookiesOf(enabled);
    expect((await auth("confirm", { password: PASSWORD }, session)).status).toBe(400);
    const proof = { password: PASSWORD, code: totpCode(totpURI, 1) };
    expect((await auth("confirm", proof, session)).status).toBe(200);
    expect((await auth("two-factor/disable", { password: PASSWORD }, session)).status).toBe(200);
    const answer = await auth("sign-in/email", { email, password: PASSWORD });
    expect(await me(cookiesOf(answer))).toBe(200);
  });

  const CHANGES = [
    ["two-factor/disable", { password: PASSWORD }, "account.disableSecondFactor"],
    ["two-factor/generate-backup-codes", { password: PASSWORD }, "account.newRecoveryCodes"],
    [
      "change-password",
      { currentPassword: PASSWORD, newPassword: "another long password" },
      "account.changePassword",
    ],
  ] as const;

  test.each(CHANGES)("is asked for before %s", async (path, body, method) => {
    const { totpURI, enabled } = await enable();
    const session = cookiesOf(enabled);
    await proven(16);
    const refused = await auth(path, body, session);
    expect([refused.status, refused.body.code]).toEqual([403, "reauthentication_required"]);
    const proof = { password: PASSWORD, code: totpCode(totpURI, 1) };
    expect((await auth("confirm", proof, session)).status).toBe(200);
    expect((await auth(path, body, session)).status).toBe(200);
    expect((await log()).slice(-3)).toEqual([
      `${method} failure`,
      "session.confirm success",
      `${method} success`,
    ]);
  });

  test("accepts a code once, at sign-in and in a confirmation", async () => {
    const { totpURI, code: first, enabled } = await enable();
    const session = cookiesOf(enabled);
    const challenge = async () =>
      cookiesOf(await auth("sign-in/email", { email, password: PASSWORD }));
    const verify = async (code: string) =>
      (await auth("two-factor/verify-totp", { code }, await challenge())).status;
    const second = totpCode(totpURI, 1);
    // The setup has used the first one.
    expect(await verify(first)).toBe(401);
    expect((await auth("confirm", { password: PASSWORD, code: first }, session)).status).toBe(400);
    expect(await verify(second)).toBe(200);
    expect(await verify(second)).toBe(401);
    expect((await auth("confirm", { password: PASSWORD, code: second }, session)).status).toBe(400);
    // A cookie that only the identity library can read is no way around.
    const cookie = (await challenge()).cookie.replace("two_factor=", "two_factor =");
    const answer = await auth("two-factor/verify-totp", { code: second }, { cookie });
    expect([answer.status, answer.body.message]).toEqual([
      ...[401, "This code was used. Wait for the next one."],
    ]);
  });

  test("is locked by ten wrong codes in a row, also with a session", async () => {
    const { totpURI, codes, enabled } = await enable();
    const session = cookiesOf(enabled);
    const confirm = async (code: string) =>
      (await auth("confirm", { password: PASSWORD, code }, session)).status;
    for (let tries = 0; tries < 9; tries += 1) expect(await confirm("000000")).toBe(400);
    // Confirmations of one minute are limited too, which is not the matter here.
    await runSql(fixture.ownerUrl, `DELETE FROM rate_limit WHERE key = 'confirm|${userId}'`);
    expect(await confirm("000000")).toBe(400);
    expect(await confirm(totpCode(totpURI, 1))).toBe(429);
    const challenge = cookiesOf(await auth("sign-in/email", { email, password: PASSWORD }));
    const recover = { code: codes[0] };
    expect((await auth("two-factor/verify-backup-code", recover, challenge)).status).toBe(429);
    const minutes = (count: number) =>
      runSql(
        fixture.ownerUrl,
        `UPDATE two_factor SET locked_until = locked_until - interval '${count} minutes' WHERE user_id = '${userId}'`,
      );
    await minutes(14);
    expect(await confirm(totpCode(totpURI, 1))).toBe(429);
    await minutes(1);
    // The count starts again.
    expect(await confirm("000000")).toBe(400);
    expect(await confirm(totpCode(totpURI, 1))).toBe(200);
  });

  test("that is on takes no code with a session, which nobody would count", async () => {
    const { totpURI, codes, enabled } = await enable();
    const session = cookiesOf(enabled);
    const code = totpCode(totpURI, 1);
    expect((await auth("two-factor/verify-totp", { code }, session)).status).toBe(400);
    const recover = { code: codes[0] };
    expect((await auth("two-factor/verify-backup-code", recover, session)).status).toBe(400);
    expect(await log()).toEqual([
      "invitation.accept success",
      "session.create success",
      "account.setUpSecondFactor success",
      "session.create success",
      "account.enableSecondFactor success",
      "account.enableSecondFactor failure",
      "session.create failure",
    ]);
  });
});
