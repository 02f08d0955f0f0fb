/** Members and invitations: who may change whom, and how somebody new gets in. */
import { newId, type Role } from "@millrace/domain";
import { runSql } from "@millrace/testkit";
import { describe, expect, test } from "vitest";
import { type Answer, apiFixture, CONSOLE_URL, call, keyOfRole, personOfRole } from "./fixture.ts";

const fixture = apiFixture();
const PASSWORD = "a long enough password";

const address = () => `${newId("usr").toLowerCase()}@example.com`;

function invite(email: string, role: Role, apiKey = fixture.ours.apiKey): Promise<Answer> {
  return call(fixture.app, "POST", "/v1/invitations", { apiKey, body: { email, role } });
}

function accept(body: object, headers = {}): Promise<Answer> {
  const path = "/api/invitations/accept";
  return call(fixture.app, "POST", path, { body, headers: { origin: CONSOLE_URL, ...headers } });
}

async function signIn(email: string, password = PASSWORD): Promise<{ cookie: string }> {
  const answer = await call(fixture.app, "POST", "/api/auth/sign-in/email", {
    body: { email, password },
  });
  expect(answer.status).toBe(200);
  return { cookie: answer.headers.get("set-cookie")?.split(";")[0] ?? "" };
}

/** A member who came by invitation: the id of the membership, and a session. */
async function join(role: Role) {
  const email = address();
  const { body } = await invite(email, role);
  expect((await accept({ token: body.token, name: "Guest", password: PASSWORD })).status).toBe(200);
  const session = await signIn(email);
  const { items } = (
    await call(fixture.app, "GET", "/v1/members?page_size=1000", { headers: session })
  ).body;
  const { id } = items.find((member: { email: string }) => member.email === email);
  return { id: id as string, email, session };
}

test("an invited person creates an account, and is a member with that role", async () => {
  const { app, ours } = fixture;
  const email = address();
  const invited = await invite(email.toUpperCase(), "developer");
  expect(invited.status).toBe(201);
  expect(invited.body).toMatchObject({ email, role: "developer", token: expect.any(String) });
  const { token, ...shown } = invited.body;
  const path = `/v1/invitations/${invited.body.id}`;
  expect((await call(app, "GET", path, { apiKey: ours.apiKey })).body).toEqual(shown);
  const opened = await call(app, "POST", "/api/invitations/open", { body: { token } });
  expect(opened.body).toMatchObject({
    ...{ email, role: "developer", has_account: false },
    organization: { name: "ours" },
  });
  expect((await accept({ token })).body.detail).toBe(`There is no account for ${email} yet.`);
  expect((await accept({ token, name: "Ada", password: "short" })).status).toBe(400);
  expect((await accept({ token, name: "Ada", password: PASSWORD })).body).toEqual({
    organization_id: ours.organization.id,
  });
  const me = await call(app, "GET", "/v1/me", { headers: await signIn(email) });
  expect(me.body).toMatchObject({ role: "developer", user: { email, name: "Ada" } });
  expect((await accept({ token, name: "Eve", password: PASSWORD })).status).toBe(410);
  expect((await call(app, "GET", path, { apiKey: ours.apiKey })).status).toBe(404);
  const log = await call(app, "GET", `/v1/audit-events?target_id=${invited.body.id}`, {
    apiKey: ours.apiKey,
  });
  expect(log.body.items.map(({ method }: { method: string }) => method)).toEqual([
    "invitation.accept",
    "invitation.create",
  ]);
  expect(log.body.items[0].auth_method).toBe("invitation");
  expect(JSON.stringify(log.body)).not.toContain(token);
});

test("somebody with an account accepts with it, and nobody else's session will do", async () => {
  const { app, ours, theirs } = fixture;
  const { body } = await invite(theirs.email, "viewer");
  const { token } = body;
  const stranger = await join("viewer");
  for (const headers of [{}, stranger.session]) {
    const refused = await accept({ token, name: "N", password: PASSWORD }, headers);
    expect(refused.body.code).toBe("account_exists");
  }
  const session = await signIn(theirs.email, theirs.password);
  const foreign = await accept({ token }, { ...session, origin: "https://elsewhere.example" });
  expect(foreign.status).toBe(403);
  expect((await accept({ token }, session)).status).toBe(200);
  const me = await call(app, "GET", "/v1/me", {
    headers: { ...session, "millrace-organization": ours.organization.id },
  });
  expect(me.body.role).toBe("viewer");
  const shown = async (id: string) => {
    const cookie = `${session.cookie}; millrace-organization=${id}`;
    return (await call(app, "GET", "/v1/me", { headers: { cookie } })).body.organization?.id;
  };
  expect(await shown(ours.organization.id)).toBe(ours.organization.id);
  expect(await shown(theirs.organization.id)).toBe(theirs.organization.id);
  // Somebody else's is passed over.
  expect(await shown(newId("org"))).toBe(theirs.organization.id);
  expect((await invite(theirs.email, "admin")).body.code).toBe("already_member");
});

test("a link ends when it is revoked, replaced, or expired, or its sender has lost the right", async () => {
  const { app, ours, db } = fixture;
  const newcomer = { name: "N", password: PASSWORD };
  const revoked = (await invite(address(), "viewer")).body;
  const path = `/v1/invitations/${revoked.id}`;
  expect((await call(app, "DELETE", path, { apiKey: ours.apiKey })).status).toBe(204);
  expect((await accept({ token: revoked.token, ...newcomer })).status).toBe(410);
  const email = address();
  const first = (await invite(email, "viewer")).body;
  await invite(email, "viewer");
  expect((await accept({ token: first.token, ...newcomer })).status).toBe(410);
  const apiKey = await keyOfRole(db, ours, "admin");
  const orphan = (await invite(address(), "admin", apiKey)).body;
  const me = await call(app, "GET", "/v1/me", { apiKey });
  await call(app, "DELETE", `/v1/api-keys/${me.body.api_key.id}`, { apiKey: ours.apiKey });
  expect((await accept({ token: orphan.token, ...newcomer })).status).toBe(410);
  for (const token of ["", "mri_x", `mri_${"a".repeat(43)}`]) {
    expect((await accept({ token, ...newcomer })).status).toBe(410);
  }
});

test("a refused acceptance leaves no account", async () => {
  const { app, db, ours } = fixture;
  const { body } = await call(app, "POST", "/v1/api-keys", {
    ...{ apiKey: ours.apiKey, body: { name: "inviter", role: "admin" } },
  });
  const email = address();
  const { token } = (await invite(email, "viewer", body.secret)).body;
  await call(app, "DELETE", `/v1/api-keys/${body.id}`, { apiKey: ours.apiKey });
  expect((await accept({ token, name: "N", password: PASSWORD })).status).toBe(410);
  expect(await db.organizations.findUserByEmail(email)).toBeUndefined();
});

test("an invitation ends when its sender may no longer invite, even for a lower role", async () => {
  const { app, ours } = fixture;
  const admin = await join("admin");
  const body = { email: address(), role: "viewer" };
  const sent = await call(app, "POST", "/v1/invitations", { headers: admin.session, body });
  const path = `/v1/members/${admin.id}`;
  await call(app, "PATCH", path, { apiKey: ours.apiKey, body: { role: "operator" } });
  const { token } = sent.body;
  expect((await accept({ token, name: "N", password: PASSWORD })).status).toBe(410);
  await call(app, "PATCH", path, { apiKey: ours.apiKey, body: { role: "admin" } });
  expect((await accept({ token, name: "N", password: PASSWORD })).status).toBe(200);
});

test("acceptances at the same time create one account", async () => {
  const { theirs } = fixture;
  const email = address();
  const account = { name: "N", password: PASSWORD };
  const first = (await invite(email, "viewer")).body;
  const twice = await Promise.all([first, first].map(({ token }) => accept({ token, ...account })));
  expect(twice.map(({ status }) => status).sort()).toEqual([200, 410]);
  const other = address();
  const links = [await invite(other, "viewer"), await invite(other, "viewer", theirs.apiKey)];
  const both = await Promise.all(
    links.map(({ body }) => accept({ token: body.token, ...account })),
  );
  expect(both.map(({ body }) => body.code).sort()).toEqual(["account_exists", undefined]);
});

test("nobody has proved the address of an account that came by invitation", async () => {
  const { session } = await join("viewer");
  const { body } = await call(fixture.app, "GET", "/api/auth/get-session", { headers: session });
  expect(body.user.emailVerified).toBe(false);
});

test("nobody invites, changes or removes above their own role", async () => {
  const { app, ours, db } = fixture;
  const admin = await keyOfRole(db, ours, "admin");
  expect((await invite(address(), "owner", admin)).status).toBe(403);
  const toOwner = (await invite(address(), "owner")).body;
  const revoke = await call(app, "DELETE", `/v1/invitations/${toOwner.id}`, { apiKey: admin });
  expect(revoke.status).toBe(403);
  // Nor by another invitation of the same address.
  expect((await invite(toOwner.email, "viewer", admin)).status).toBe(403);
  const owner = await join("owner");
  const viewer = await join("viewer");
  const change = (id: string, role: Role, apiKey: string) =>
    call(app, "PATCH", `/v1/members/${id}`, { apiKey, body: { role } });
  expect((await change(owner.id, "viewer", admin)).status).toBe(403);
  expect((await change(viewer.id, "owner", admin)).status).toBe(403);
  expect((await change(viewer.id, "admin", admin)).body.role).toBe("admin");
  const remove = (id: string, apiKey: string) =>
    call(app, "DELETE", `/v1/members/${id}`, { apiKey });
  expect((await remove(owner.id, admin)).status).toBe(403);
  expect((await remove(owner.id, ours.apiKey)).status).toBe(204);
});

test("a key with addresses or an expiry lets nobody in without them, and changes no custom role", async () => {
  const { app, ours } = fixture;
  const { id } = await join("viewer");
  const role = { name: "held by many", permissions: ["cluster:read"] };
  const made = await call(app, "POST", "/v1/roles", { apiKey: ours.apiKey, body: role });
  const path = `/v1/roles/${made.body.id}`;
  const roleChanges = [
    ["POST", "/v1/roles", { ...role, name: "another" }],
    ["PATCH", path, { permissions: ["cluster:read", "audit:read"] }],
    ["DELETE", path, undefined],
  ] as const;
  const limits = [
    { allowed_addresses: ["127.0.0.0/8"] },
    { expires_at: new Date(Date.now() + 3_600_000).toISOString() },
  ];
  for (const limit of limits) {
    const key = await call(app, "POST", "/v1/api-keys", {
      ...{ apiKey: ours.apiKey, body: { name: "narrow", role: "admin", ...limit } },
    });
    const apiKey = key.body.secret;
    const detail = "An API key that is limited by address or expiry cannot";
    expect((await invite(address(), "viewer", apiKey)).body.detail).toMatch(detail);
    const body = { role: "admin" };
    const raised = await call(app, "PATCH", `/v1/members/${id}`, { apiKey, body });
    expect(raised.body.detail).toMatch(detail);
    for (const [method, path, change] of roleChanges) {
      const refused = await call(app, method, path, { apiKey, ...(change && { body: change }) });
      expect([refused.status, refused.body.detail]).toEqual([403, expect.stringMatching(detail)]);
    }
  }
});

test("a new role counts from the next request, and a removed member is out with it", async () => {
  const { app, ours } = fixture;
  const member = await join("admin");
  const path = `/v1/members/${member.id}`;
  const keys = () => call(app, "GET", "/v1/api-keys", { headers: member.session });
  expect((await keys()).status).toBe(200);
  await call(app, "PATCH", path, { apiKey: ours.apiKey, body: { role: "viewer" } });
  expect((await keys()).status).toBe(403);
  await call(app, "DELETE", path, { apiKey: ours.apiKey });
  expect((await keys()).body.detail).toBe("You do not belong to any organization.");
});

test("an organization keeps an owner", async () => {
  const { app, theirs } = fixture;
  const { apiKey } = theirs;
  const { items } = (await call(app, "GET", "/v1/members", { apiKey })).body;
  const path = `/v1/members/${items[0].id}`;
  const demoted = await call(app, "PATCH", path, { apiKey, body: { role: "admin" } });
  expect([demoted.status, demoted.body.code]).toEqual([409, "last_owner"]);
  expect((await call(app, "DELETE", path, { apiKey })).body.code).toBe("last_owner");
  const headers = await signIn(theirs.email, theirs.password);
  const named = { ...headers, "millrace-organization": theirs.organization.id };
  const body = { organization_id: theirs.organization.id };
  const leave = () => call(app, "POST", "/v1/me/leave", { headers: named, body });
  expect((await leave()).body.code).toBe("last_owner");
  const { token } = (await invite("second@example.com", "owner", apiKey)).body;
  await accept({ token, name: "Second", password: PASSWORD });
  expect((await leave()).status).toBe(204);
});

test("an invitation is a mail in the outbox, whose text is stored sealed and can be read once", async () => {
  const { app, ours, db, ownerUrl } = fixture;
  const email = address();
  const invited = (await invite(email, "admin")).body;
  const list = await call(app, "GET", "/v1/outgoing-mails", { apiKey: ours.apiKey });
  const [mail] = list.body.items;
  expect(mail).toMatchObject({ recipient: email, subject: "Invitation to ours", opened_at: null });
  // Throws where a row does not hold what is said.
  await runSql(
    ownerUrl,
    `SELECT 1 / count(*) FILTER (WHERE position('mri_'::bytea IN sealed_text) = 0) FROM outgoing_mail
     WHERE id = '${mail.id}'`,
  );
  const open = (apiKey: string, id = mail.id) =>
    call(app, "POST", `/v1/outgoing-mails/${id}/open`, { apiKey });
  const opened = await open(ours.apiKey);
  expect(opened.body.text).toContain(`${CONSOLE_URL}/invitation#${invited.token}\n`);
  expect(opened.body.opened_at).toEqual(expect.any(String));
  expect((await open(ours.apiKey)).body).toMatchObject({
    ...{ code: "mail_text_unavailable", detail: "The text has already been read." },
  });
  const log = await call(app, "GET", `/v1/audit-events?target_id=${mail.id}`, {
    apiKey: ours.apiKey,
  });
  expect(log.body.items[1]).toMatchObject({
    ...{ method: "outgoingMail.open", result: "success", before: { recipient: email } },
  });
  expect(JSON.stringify(log.body)).not.toContain(invited.token);
  expect((await accept({ token: invited.token, name: "A", password: PASSWORD })).status).toBe(200);

  // Whoever could not send the invitation cannot read its link.
  await invite(address(), "owner");
  const [high] = (await call(app, "GET", "/v1/outgoing-mails", { apiKey: ours.apiKey })).body.items;
  expect((await open(await keyOfRole(db, ours, "admin"), high.id)).status).toBe(403);
});

test("the mail of an invitation that has ended has no text", async () => {
  const { app, ours } = fixture;
  const { apiKey } = ours;
  const invited = (await invite(address(), "viewer")).body;
  const [mail] = (await call(app, "GET", "/v1/outgoing-mails", { apiKey })).body.items;
  await call(app, "DELETE", `/v1/invitations/${invited.id}`, { apiKey });
  const opened = await call(app, "POST", `/v1/outgoing-mails/${mail.id}/open`, { apiKey });
  expect(opened.status).toBe(410);
  expect(opened.body.detail).toBe("The invitation has ended.");
});

describe("a custom role", () => {
  const ask = (method: string, path: string, body?: object, headers?: Record<string, string>) =>
    call(fixture.app, method, path, {
      ...(headers ? { headers } : { apiKey: fixture.ours.apiKey }),
      ...(body && { body }),
    });
  const create = (name: string, permissions: string[], headers?: Record<string, string>) =>
    ask("POST", "/v1/roles", { name, permissions }, headers);

  /** Without an invitation: only so many are accepted per minute. */
  async function member(role: Role) {
    const session = await personOfRole(fixture, role);
    const user = (await ask("GET", "/v1/me", undefined, session)).body.user.id;
    const { items } = (await ask("GET", "/v1/members?page_size=1000")).body;
    const { id } = items.find((each: { user_id: string }) => each.user_id === user);
    return { id: id as string, session };
  }

  /** A member with a new role of these permissions. */
  async function memberWith(name: string, permissions: string[]) {
    const viewer = await member("viewer");
    const role = await create(name, permissions);
    expect(role.status).toBe(201);
    const custom_role_id = role.body.id;
    const given = await ask("PATCH", `/v1/members/${viewer.id}`, { custom_role_id });
    expect(given.status).toBe(200);
    return { ...viewer, role: role.body, given: given.body };
  }

  test("grants its permissions and no others, and changes with the next request", async () => {
    const { session, role, given } = await memberWith("auditor", ["audit:read", "cluster:read"]);
    expect(given).toMatchObject({ role: "admin", custom_role: { id: role.id, name: "auditor" } });
    const me = await ask("GET", "/v1/me", undefined, session);
    expect(me.body).toMatchObject({
      custom_role: { id: role.id, name: "auditor" },
      permissions: ["account:read", "account:write", "cluster:read", "audit:read"],
    });
    expect((await ask("GET", "/v1/audit-events", undefined, session)).status).toBe(200);
    const refused = await ask("GET", "/v1/members", undefined, session);
    expect([refused.status, refused.body.detail]).toEqual([
      ...[403, "The role auditor does not grant member:read."],
    ]);
    const path = `/v1/roles/${role.id}`;
    expect((await ask("PATCH", path, { permissions: ["member:read"] })).status).toBe(200);
    expect((await ask("GET", "/v1/members", undefined, session)).status).toBe(200);
    expect((await ask("GET", "/v1/audit-events", undefined, session)).status).toBe(403);
  });

  test("lets nobody grant, change or take away what they do not have", async () => {
    const held = ["member:read", "member:write", "apikey:write", "cluster:read"];
    const { session, role } = await memberWith("people manager", held);
    expect((await create("beyond", ["audit:read"], session)).status).toBe(403);
    expect((await create("within", ["cluster:read"], session)).status).toBe(201);
    const wide = await create("wide", ["audit:read"]);
    const { id } = await member("viewer");
    const give = (body: object) => ask("PATCH", `/v1/members/${id}`, body, session);
    // A viewer has more than this role.
    expect((await give({ custom_role_id: role.id })).status).toBe(403);
    await ask("PATCH", `/v1/members/${id}`, { custom_role_id: role.id });
    expect((await give({ custom_role_id: wide.body.id })).status).toBe(403);
    expect((await give({ role: "viewer" })).status).toBe(403);
    const path = `/v1/roles/${wide.body.id}`;
    expect((await ask("PATCH", path, { permissions: held }, session)).status).toBe(403);
    expect((await ask("DELETE", path, undefined, session)).status).toBe(403);
    const more = { permissions: [...held, "audit:read"] };
    expect((await ask("PATCH", `/v1/roles/${role.id}`, more, session)).status).toBe(403);
    const owner = await member("owner");
    expect((await ask("DELETE", `/v1/members/${owner.id}`, undefined, session)).status).toBe(403);
    const key = (body: object) => ask("POST", "/v1/api-keys", { name: "k", ...body }, session);
    expect((await key({ role: "viewer" })).status).toBe(403);
    expect((await key({ role: "viewer", permissions: ["cluster:read"] })).status).toBe(201);
    const guest = { email: address(), role: "viewer" };
    expect((await ask("POST", "/v1/invitations", guest, session)).status).toBe(403);
  });

  test("is not deleted while a member has it", async () => {
    const { id, role } = await memberWith("temporary", ["cluster:read"]);
    const path = `/v1/roles/${role.id}`;
    const refused = await ask("DELETE", path);
    expect([refused.status, refused.body.code]).toEqual([409, "role_in_use"]);
    const back = await ask("PATCH", `/v1/members/${id}`, { role: "viewer" });
    expect(back.body).toMatchObject({ role: "viewer", custom_role: null });
    expect((await ask("DELETE", path)).status).toBe(204);
    expect((await ask("GET", path)).status).toBe(404);
  });

  test("has a name of its own, and a member has one role", async () => {
    const first = await create("named", ["cluster:read"]);
    const again = await create("named", ["cluster:read"]);
    expect([again.status, again.body.existing_id]).toEqual([409, first.body.id]);
    const shouted = await create("NAMED", ["cluster:read"]);
    expect([shouted.status, shouted.body.existing_id]).toEqual([409, first.body.id]);
    for (const builtIn of ["admin", "Owner", "VIEWER"]) {
      const refused = await create(builtIn, ["cluster:read"]);
      expect([refused.status, refused.body.code]).toEqual([409, "role_name_taken"]);
    }
    expect((await create("unknown", ["no:such"])).status).toBe(400);
    const { id } = await member("viewer");
    const both = { role: "viewer", custom_role_id: first.body.id };
    expect((await ask("PATCH", `/v1/members/${id}`, both)).status).toBe(400);
    expect((await ask("PATCH", `/v1/members/${id}`, {})).status).toBe(400);
  });

  test("does not end in an organization without an owner", async () => {
    const { theirs } = fixture;
    const own = { authorization: `Bearer ${theirs.apiKey}` };
    const role = await create("no owner", ["cluster:read"], own);
    const { body } = await ask("GET", "/v1/members", undefined, own);
    const custom_role_id = role.body.id;
    const change = { custom_role_id };
    // Other tests have members join.
    const owner = body.items.find((each: { role: string }) => each.role === "owner");
    const refused = await ask("PATCH", `/v1/members/${owner.id}`, change, own);
    expect(refused.body.code).toBe("last_owner");
    const { id } = await member("viewer");
    expect((await ask("PATCH", `/v1/members/${id}`, change)).status).toBe(404);
  });
});
