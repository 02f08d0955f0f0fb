/** What narrows an API key, and how its secret is replaced. */
import { runSql } from "@millrace/testkit";
import { expect, test } from "vitest";
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
