/** What narrows an API key, and how its secret is replaced. */
import { runSql } from "@millrace/testkit";
import { describe, expect, test } from "vitest";
import { type Answer, apiFixture, call } from "./fixture.ts";

const fixture = apiFixture();

function create(body: object, apiKey = fixture.ours.apiKey): Promise<Answer> {
  return call(fixture.app, "POST", "/v1/api-keys", { apiKey, body: { name: "k", ...body } });
}

const get = (path: string, apiKey: string, headers = {}) =>
  call(fixture.app, "GET", path, { apiKey, headers });

test("permissions narrow the role, and grant nothing beyond it", async () => {
  const made = await create({ role: "admin", permissions: ["account:read", "audit:read"] });
  expect(made.body.permissions).toEqual(["account:read", "audit:read"]);
  expect((await get("/v1/audit-events", made.body.secret)).status).toBe(200);
  const refused = await get("/v1/clusters", made.body.secret);
  expect(refused.status).toBe(403);
  expect(refused.body.detail).toBe("This API key does not have the permission cluster:read.");
  const beyond = await create({ role: "viewer", permissions: ["audit:read"] });
  expect((await get("/v1/audit-events", beyond.body.secret)).status).toBe(403);
  expect((await create({ permissions: ["no:such"] })).status).toBe(400);
  expect((await create({ permissions: [] })).status).toBe(400);
});

test("a key works from its addresses alone", async () => {
  const made = await create({ allowed_addresses: ["192.0.2.0/24", "2001:db8::7"] });
  const from = async (address: string) =>
    (await get("/v1/me", made.body.secret, { "x-forwarded-for": address })).status;
  expect(await from("192.0.2.9")).toBe(200);
  expect(await from("2001:db8::7")).toBe(200);
  expect(await from("198.51.100.1")).toBe(403);
  expect((await get("/v1/me", made.body.secret)).body.detail).toBe(
    "This API key does not work from 127.0.0.1.",
  );
  const broken = await create({ allowed_addresses: ["10.0.0.0/8", "10.0.0.0/33"] });
  expect(broken.body.errors[0].pointer).toBe("/allowed_addresses/1");
});

test("a narrow key creates, rotates and revokes nothing wider than itself", async () => {
  const { app } = fixture;
  const narrow = async (body: object) => (await create({ role: "admin", ...body })).body.secret;
  const permissions = ["apikey:write", "cluster:read"];
  const scoped = await narrow({ permissions });
  expect((await create({ role: "admin" }, scoped)).status).toBe(403);
  expect((await create({ role: "admin", permissions }, scoped)).status).toBe(201);
  const wide = (await create({ role: "viewer" })).body;
  const rotate = await call(app, "POST", `/v1/api-keys/${wide.id}/rotate`, {
    ...{ apiKey: scoped, body: {} },
  });
  expect(rotate.status).toBe(403);
  const remove = await call(app, "DELETE", `/v1/api-keys/${wide.id}`, { apiKey: scoped });
  expect(remove.status).toBe(403);
  const local = await narrow({ allowed_addresses: ["127.0.0.0/8"] });
  expect((await create({}, local)).status).toBe(403);
  const take = await call(app, "POST", `/v1/api-keys/${wide.id}/rotate`, {
    ...{ apiKey: local, body: {} },
  });
  expect(take.status).toBe(403);
  expect((await create({ allowed_addresses: ["0.0.0.0/0"] }, local)).status).toBe(403);
  expect((await create({ allowed_addresses: ["127.0.0.1"] }, local)).status).toBe(201);
  const at = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
  const brief = await narrow({ expires_at: at(1) });
  expect((await create({}, brief)).status).toBe(403);
  expect((await create({ expires_at: at(2) }, brief)).status).toBe(403);
  expect((await create({ expires_at: at(0.5) }, brief)).status).toBe(201);
});

test("a rotated key has a new secret, and the old one works on for the overlap", async () => {
  const { app, ours, ownerUrl } = fixture;
  const { id, secret: first } = (await create({ role: "developer" })).body;
  const rotate = (body: object) =>
    call(app, "POST", `/v1/api-keys/${id}/rotate`, { apiKey: ours.apiKey, body });
  const works = async (secret: string) => (await get("/v1/me", secret)).body.api_key?.id === id;
  const rotated = await rotate({ overlap_hours: 2 });
  expect(rotated.status).toBe(200);
  const { secret: second, previous_valid_until } = rotated.body;
  expect(Math.round((Date.parse(previous_valid_until) - Date.now()) / 3_600_000)).toBe(2);
  expect([await works(first), await works(second)]).toEqual([true, true]);
  const { secret: third } = (await rotate({})).body;
  expect([await works(first), await works(second), await works(third)]).toEqual([
    false,
    true,
    true,
  ]);
  await runSql(
    ownerUrl,
    `UPDATE api_key SET previous_valid_until = now() - interval '1 second' WHERE id = '${id}'`,
  );
  expect([await works(second), await works(third)]).toEqual([false, true]);
  const { secret: fourth } = (await rotate({ overlap_hours: 0 })).body;
  expect([await works(third), await works(fourth)]).toEqual([false, true]);
  expect((await rotate({ overlap_hours: 169 })).status).toBe(400);
  await call(app, "DELETE", `/v1/api-keys/${id}`, { apiKey: ours.apiKey });
  expect(await works(fourth)).toBe(false);
  expect((await rotate({})).status).toBe(404);
});

describe("a service account", () => {
  const path = "/v1/service-accounts";
  const ask = (method: string, at: string, body?: object, apiKey = fixture.ours.apiKey) =>
    call(fixture.app, method, at, { apiKey, ...(body && { body }) });

  /** An account with one key. */
  async function account(name: string, body: object = {}) {
    const made = await ask("POST", path, { name, ...body });
    expect(made.status).toBe(201);
    const at = `${path}/${made.body.id}`;
    const key = await ask("POST", `${at}/keys`, { name: "first" });
    expect(key.status).toBe(201);
    return { at, id: made.body.id, key: key.body };
  }

  test("has keys with its role, also after that is lowered", async () => {
    const { at, id, key } = await account("deploy", { role: "admin" });
    const me = await get("/v1/me", key.secret);
    expect(me.body).toMatchObject({
      ...{ user: null, role: "admin", api_key: { id: key.id, name: "first" } },
      service_account: { id, name: "deploy" },
    });
    const keys = await get(`/v1/api-keys?service_account_id=${id}`, key.secret);
    expect(keys.body.items).toHaveLength(1);
    expect(keys.body.items[0]).toMatchObject({
      ...{ id: key.id, role: "admin", service_account_id: id },
    });
    expect((await ask("PATCH", at, { role: "viewer" })).body.role).toBe("viewer");
    expect((await get("/v1/me", key.secret)).body.role).toBe("viewer");
    expect((await get("/v1/api-keys", key.secret)).status).toBe(403);
  });

  test("loses its keys when its role is raised: their holders may have fewer rights", async () => {
    const { at, id, key } = await account("promoted", { role: "developer" });
    const others = await account("not promoted", { role: "developer" });
    await ask("PATCH", at, { role: "developer", description: "the same role" });
    expect((await get("/v1/me", key.secret)).status).toBe(200);
    expect((await ask("PATCH", at, { role: "owner" })).body.role).toBe("owner");
    expect((await get("/v1/me", key.secret)).status).toBe(401);
    expect((await ask("GET", `/v1/api-keys?service_account_id=${id}`)).body.items).toEqual([]);
    const next = await ask("POST", `${at}/keys`, { name: "second" });
    expect((await get("/v1/me", next.body.secret)).body.role).toBe("owner");
    expect((await get("/v1/me", others.key.secret)).status).toBe(200);
  });

  test("is rejected while it is disabled, and for good when it is deleted", async () => {
    const { at, key } = await account("short-lived");
    const status = async () => (await get("/v1/me", key.secret)).status;
    expect((await ask("PATCH", at, { disabled: true })).body.disabled).toBe(true);
    expect(await status()).toBe(401);
    expect((await ask("PATCH", at, { disabled: false })).body.disabled).toBe(false);
    expect(await status()).toBe(200);
    expect((await ask("DELETE", at)).status).toBe(204);
    expect(await status()).toBe(401);
    expect((await ask("GET", at)).status).toBe(404);
    expect((await ask("GET", `/v1/api-keys/${key.id}`)).status).toBe(404);
    // The name is free again.
    await account("short-lived");
  });

  test("is neither created nor changed above the caller's rights", async () => {
    const admin = (await create({ role: "admin" })).body.secret;
    const owner = await account("of-the-owner", { role: "owner" });
    const up = { name: "up", role: "owner" };
    expect((await ask("POST", path, up, admin)).status).toBe(403);
    expect((await ask("POST", `${owner.at}/keys`, { name: "k" }, admin)).status).toBe(403);
    expect((await ask("PATCH", owner.at, { disabled: true }, admin)).status).toBe(403);
    expect((await ask("DELETE", owner.at, undefined, admin)).status).toBe(403);
    const rotate = `/v1/api-keys/${owner.key.id}/rotate`;
    expect((await ask("POST", rotate, {}, admin)).status).toBe(403);
    const plain = await account("plain");
    expect((await ask("PATCH", plain.at, { role: "owner" }, admin)).status).toBe(403);
    // The account's keys work from everywhere, this one does not.
    const limits = { role: "admin", allowed_addresses: ["127.0.0.0/8"] };
    const local = (await create(limits)).body.secret;
    expect((await ask("PATCH", plain.at, { role: "admin" }, local)).status).toBe(403);
    expect((await ask("PATCH", plain.at, { role: "admin" }, admin)).status).toBe(200);
  });

  test("is in the audit log with its name, and its name is given once", async () => {
    const { id, key } = await account("auditor", { role: "admin" });
    const again = await ask("POST", path, { name: "auditor" });
    expect([again.status, again.body.code, again.body.existing_id]).toEqual([
      ...[409, "service_account_name_taken", id],
    ]);
    await ask("POST", "/v1/environments", { name: "by an account" }, key.secret);
    const { body } = await ask("GET", `/v1/audit-events?actor_id=${key.id}`);
    expect(body.items[0].actor).toEqual({ kind: "api_key", id: key.id, name: "auditor/first" });
    const made = await ask("GET", `/v1/audit-events?target_id=${id}`);
    expect(made.body.items[0].after).toMatchObject({ name: "auditor", role: "admin" });
  });

  test("has at most ten keys", async () => {
    const { at } = await account("many-keys");
    for (let count = 1; count < 10; count += 1) await ask("POST", `${at}/keys`, { name: "k" });
    const refused = await ask("POST", `${at}/keys`, { name: "k" });
    expect([refused.status, refused.body.code]).toEqual([422, "limit_exceeded"]);
  });
});
