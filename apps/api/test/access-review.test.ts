/** The access review: every way into an organization, what to look at, and that somebody did. */
import { API_KEYS_PER_ORGANIZATION_MAX, newId, type UserId } from "@millrace/domain";
import { runSql } from "@millrace/testkit";
import { expect, test } from "vitest";
import { apiFixture, call, personOfRole, sessionIdOf } from "./fixture.ts";

const fixture = apiFixture();

const ask = (method: string, path: string, body?: object) =>
  call(fixture.app, method, path, { apiKey: fixture.ours.apiKey, ...(body && { body }) });
const record = async () => ask("POST", "/v1/access-review", { digest: (await review()).digest });
const review = async () => (await ask("GET", "/v1/access-review")).body;
const find = async (name: string) =>
  (await review()).items.find((item: { name: string }) => item.name === name);

test("has every way in, with what to look at", async () => {
  const { ours, ownerUrl } = fixture;
  const { body: account } = await ask("POST", "/v1/service-accounts", { name: "robot" });
  const keys = `/v1/service-accounts/${account.id}/keys`;
  const { body: key } = await ask("POST", keys, { name: "k", permissions: ["topic:read"] });
  await ask("POST", "/v1/api-keys", { name: "old", role: "owner" });
  const email = "guest@example.com";
  await ask("POST", "/v1/invitations", { email, role: "developer" });

  expect(await find("robot")).toMatchObject({
    kind: "service_account",
    findings: ["never_used"],
  });
  expect(await find("robot/k")).toMatchObject({
    ...{ kind: "api_key", role: "viewer", permissions: ["topic:read"], last_used_at: null },
  });
  expect(await find("old")).toMatchObject({ findings: ["owner", "never_used"] });
  expect(await find(email)).toMatchObject({
    ...{ kind: "invitation", role: "developer", findings: [], expires_at: expect.any(String) },
  });
  const owner = "ours@example.com";
  expect(await find(owner)).toMatchObject({
    ...{ kind: "member", role: "owner", sign_in: ["password"], second_factor: false },
    findings: ["owner", "never_used", "no_second_factor"],
  });

  await sessionIdOf(fixture.app, ours);
  expect((await find(owner)).findings).toEqual(["owner", "no_second_factor"]);
  await call(fixture.app, "GET", "/v1/me", { apiKey: key.secret });
  const used = expect.any(String);
  expect(await find("robot/k")).toMatchObject({ last_used_at: used, findings: [] });
  expect(await find("robot")).toMatchObject({ last_used_at: used, findings: [] });
  const old = "last_used_at = now() - interval '91 days'";
  await runSql(ownerUrl, `UPDATE member SET ${old}; UPDATE api_key SET ${old}`);
  expect((await find(owner)).findings).toContain("unused");
  expect((await find("robot")).findings).toEqual(["unused"]);

  // What is revoked or expired is no way in.
  await ask("DELETE", `/v1/api-keys/${key.id}`);
  await runSql(ownerUrl, "UPDATE api_key SET expires_at = now() WHERE name = 'old'");
  expect([await find("robot/k"), await find("old")]).toEqual([undefined, undefined]);
});

test("is recorded with its counts, for this organization alone", async () => {
  expect((await review()).last_review).toBeNull();
  const { items } = await review();
  const recorded = await record();
  expect(recorded.status).toBe(201);
  expect(recorded.body).toMatchObject({
    ...{ digest: expect.stringMatching(/^[0-9a-f]{64}$/), complete: true },
    counts: { total: items.length },
  });
  expect((await review()).last_review).toEqual(recorded.body);
  const path = `/v1/audit-events?target_id=${recorded.body.id}`;
  expect((await ask("GET", path)).body.items[0]).toMatchObject({
    ...{
      method: "accessReview.create",
      result: "success",
      after: { ...recorded.body.counts, digest: recorded.body.digest, complete: true },
    },
  });
  const { apiKey } = fixture.theirs;
  const { body } = await call(fixture.app, "GET", "/v1/access-review", { apiKey });
  expect(body.last_review).toBeNull();
});

test("is exported as CSV, and no name in it is a formula", async () => {
  await ask("POST", "/v1/api-keys", { name: "=HYPERLINK(1)" });
  const headers = { authorization: `Bearer ${fixture.ours.apiKey}` };
  const answer = await fixture.app.request("/v1/access-review/export", { headers });
  expect(answer.headers.get("content-type")).toBe("text/csv; charset=utf-8");
  const text = await answer.text();
  expect(text.split("\r\n")[0]).toMatch(/^kind,id,name,role,custom_role,.*,complete$/);
  expect(text).toMatch(/^api_key,key_\w+,'=HYPERLINK\(1\),viewer,.*,true\r$/m);
});

test("is recorded only as it was read: use does not change it, another role or key does", async () => {
  const { app, db, ours } = fixture;
  const path = "/v1/access-review";
  const { body: key } = await ask("POST", "/v1/api-keys", { name: "reader" });
  const { digest } = await review();
  await call(app, "GET", "/v1/me", { apiKey: key.secret });
  expect((await review()).digest).toBe(digest);
  expect((await ask("POST", path, { digest })).status).toBe(201);
  const { body: account } = await ask("POST", "/v1/service-accounts", { name: "shifting" });
  const stale = await ask("POST", path, { digest });
  expect([stale.status, stale.body.code]).toEqual([409, "access_changed"]);
  expect(stale.body.remedy).toContain("Read it again");
  const before = (await review()).digest;
  await ask("PATCH", `/v1/service-accounts/${account.id}`, { role: "developer" });
  expect((await ask("POST", path, { digest: before })).status).toBe(409);
  const last = await db.accessReviews.newest(ours.organization.id);
  expect([last?.digest, (await record()).status]).toEqual([digest, 201]);
  expect((await ask("POST", path, {})).status).toBe(400);
});

test("shows what a custom role grants, and needs a permission of its own", async () => {
  const { app, db, ours } = fixture;
  const organizationId = ours.organization.id;
  const session = await personOfRole(fixture, "viewer");
  const { body: me } = await call(app, "GET", "/v1/me", { headers: session });
  const member = await db.members.ofUser(organizationId, me.user.id);
  const give = async (name: string, permissions: string[]) => {
    const { body: role } = await ask("POST", "/v1/roles", { name, permissions });
    const body = { custom_role_id: role.id };
    expect((await ask("PATCH", `/v1/members/${member?.id}`, body)).status).toBe(200);
  };
  const statuses = async () => {
    const { digest } = await review();
    const as = (method: string, path: string, body?: object) =>
      call(app, method, path, { headers: session, ...(body && { body }) });
    return [
      (await as("GET", "/v1/access-review")).status,
      (await as("POST", "/v1/access-review", { digest })).status,
    ];
  };
  const exported = async () => {
    const answer = await app.request("/v1/access-review/export", { headers: session });
    return { status: answer.status, text: await answer.text() };
  };
  await give("people reader", ["audit:read", "member:write"]);
  expect(await find(me.user.email)).toMatchObject({
    ...{ role: "admin", custom_role: { name: "people reader" } },
    permissions: ["account:read", "account:write", "audit:read", "member:write"],
  });
  expect([...(await statuses()), (await exported()).status]).toEqual([403, 403, 403]);
  await give("reviewer", ["access:review"]);
  expect(await statuses()).toEqual([200, 201]);
  const { status, text } = await exported();
  expect(status).toBe(200);
  expect(text).toContain(
    `,${me.user.email},admin,reviewer,account:read account:write access:review,`,
  );
});

test("has single sign-on, with its domains and what a first sign-in gives", async () => {
  const { db, ours } = fixture;
  const organizationId = ours.organization.id;
  const put = (defaultRole: "admin" | "developer", domains: string[]) =>
    db.ssoConnections.put({
      ...{ id, organizationId, issuer: "https://id.example", clientId: "c", defaultRole, domains },
      ...{ required: false, clientSecret: Uint8Array.of(1) },
    });
  const id = newId("sso");
  await put("developer", ["a.example"]);
  expect(await find("https://id.example")).toMatchObject({
    ...{ kind: "single_sign_on", id, role: "developer", domains: ["a.example"], findings: [] },
  });
  const { digest } = await review();
  await put("developer", ["a.example", "b.example"]);
  expect((await ask("POST", "/v1/access-review", { digest })).status).toBe(409);
  await put("admin", ["a.example"]);
  expect((await find("https://id.example")).findings).toEqual(["default_admin"]);
  const { counts } = (await record()).body;
  expect([counts.kinds.single_sign_on, counts.findings.default_admin]).toEqual([1, 1]);
  await db.ssoConnections.remove(organizationId);
});

test("a member who is back within the hour is not written again", async () => {
  const { db, ours } = fixture;
  const organizationId = ours.organization.id;
  const session = await personOfRole(fixture, "viewer");
  const { body: me } = await call(fixture.app, "GET", "/v1/me", { headers: session });
  const last = async () => Date.parse((await find(me.user.email)).last_used_at);
  const first = await last();
  const touch = (ms: number) =>
    db.members.touch(organizationId, me.user.id as UserId, new Date(first + ms));
  // As of a request that was authenticated before another wrote.
  await touch(-60_000);
  await touch(3_600_000);
  expect(await last()).toBe(first);
  await touch(3_600_001);
  expect(await last()).toBe(first + 3_600_001);
});

/** Last: it leaves more keys behind than a review has. */
test("too many keys: no more are created, the longest unused are listed, and nothing is recorded", async () => {
  const { ownerUrl, ours } = fixture;
  const organizationId = ours.organization.id;
  const fill = (count: number, prefix: string) =>
    runSql(
      ownerUrl,
      `INSERT INTO api_key (id, organization_id, name, role, hint, secret_hash, last_used_at, created_at)
         SELECT '${prefix}' || n, '${organizationId}', '${prefix}' || n, 'viewer', 'h',
           sha256(('${prefix}' || n)::bytea), now(), now() - interval '1 year' FROM generate_series(1, ${count}) n`,
    );
  const create = () => ask("POST", "/v1/api-keys", { name: "more" });
  await runSql(
    ownerUrl,
    `UPDATE api_key SET revoked_at = now() WHERE organization_id = '${organizationId}' AND role <> 'owner'`,
  );
  const { items } = await review();
  const own = items.filter(({ kind }: { kind: string }) => kind === "api_key").length;
  await fill(API_KEYS_PER_ORGANIZATION_MAX - own - 1, "filler-");
  expect((await create()).status).toBe(201);
  const refused = await create();
  expect([refused.status, refused.body.code]).toEqual([422, "limit_exceeded"]);
  expect(refused.body.detail).toContain("at most 1000 API keys of its own");
  // A service account has a limit of its own, and what is revoked does not count.
  const { body: account } = await ask("POST", "/v1/service-accounts", { name: "beside" });
  const keys = `/v1/service-accounts/${account.id}/keys`;
  expect((await ask("POST", keys, { name: "k" })).status).toBe(201);
  await runSql(ownerUrl, "UPDATE api_key SET revoked_at = now() WHERE name = 'filler-1'");
  expect((await create()).status).toBe(201);

  expect((await review()).complete).toBe(true);
  // As from before there was a limit. These two were made last; all others were used just now.
  await fill(API_KEYS_PER_ORGANIZATION_MAX, "older-");
  await runSql(ownerUrl, "UPDATE api_key SET last_used_at = now() WHERE revoked_at IS NULL");
  await runSql(
    ownerUrl,
    `UPDATE api_key SET created_at = now() + interval '1 day', last_used_at = CASE name WHEN 'older-7'
       THEN now() - interval '1 year' END WHERE name IN ('older-7', 'older-9')`,
  );
  const many = await review();
  expect(many.complete).toBe(false);
  const listed = many.items.filter(({ kind }: { kind: string }) => kind === "api_key");
  expect(listed).toHaveLength(2 * API_KEYS_PER_ORGANIZATION_MAX);
  expect(listed.slice(0, 2).map(({ name }: { name: string }) => name)).toEqual([
    ...["older-9", "older-7"],
  ]);
  const headers = { authorization: `Bearer ${ours.apiKey}` };
  const csv = await (await fixture.app.request("/v1/access-review/export", { headers })).text();
  expect(csv).toMatch(/^api_key,older-9,.*,false\r$/m);
  const unrecorded = await ask("POST", "/v1/access-review", { digest: many.digest });
  expect([unrecorded.status, unrecorded.body.code]).toEqual([422, "limit_exceeded"]);
  expect(unrecorded.body.remedy).toContain("Revoke keys");
});
