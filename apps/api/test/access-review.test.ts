/** The access review: every way into an organization, what to look at, and that somebody did. */
import { runSql } from "@millrace/testkit";
import { expect, test } from "vitest";
import { apiFixture, call, sessionIdOf } from "./fixture.ts";

const fixture = apiFixture();

const ask = (method: string, path: string, body?: object) =>
  call(fixture.app, method, path, { apiKey: fixture.ours.apiKey, ...(body && { body }) });
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
  const recorded = await ask("POST", "/v1/access-review");
  expect(recorded.status).toBe(201);
  expect(recorded.body.counts.total).toBe(items.length);
  expect((await review()).last_review).toEqual(recorded.body);
  const path = `/v1/audit-events?target_id=${recorded.body.id}`;
  expect((await ask("GET", path)).body.items[0]).toMatchObject({
    ...{ method: "accessReview.create", result: "success", after: recorded.body.counts },
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
  expect(text.split("\r\n")[0]).toMatch(/^kind,id,name,role,/);
  expect(text).toMatch(/^api_key,key_\w+,'=HYPERLINK\(1\),viewer,/m);
});
