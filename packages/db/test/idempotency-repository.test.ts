import { createHash } from "node:crypto";
import type { OrganizationId } from "@millrace/domain";
import { expect, test } from "vitest";
import type { IdempotentRequest } from "../src/index.ts";
import { databaseFixture, newTenant } from "./fixture.ts";

const fixture = databaseFixture();

function request(organizationId: OrganizationId, changes: Partial<IdempotentRequest> = {}) {
  return {
    organizationId,
    principal: "key_1",
    key: "k",
    route: "cluster.create",
    requestHash: new Uint8Array(createHash("sha256").update("body").digest()),
    lockMs: 60_000,
    keepMs: 60_000,
    ...changes,
  };
}

test("the first request runs, the same one is answered from the store", async () => {
  const { db, organization } = await newTenant(fixture.db);
  const scope = request(organization.id);
  const response = { status: 202, headers: { location: "/v1/operations/op_1" }, body: "{}" };
  expect(await db.idempotency.begin(scope)).toEqual({ kind: "begun" });
  expect(await db.idempotency.begin(scope)).toEqual({ kind: "running" });
  await db.idempotency.complete(scope, response);
  expect(await db.idempotency.begin(scope)).toEqual({ kind: "replay", response });
});

test("another body or route under the same key is a mismatch", async () => {
  const { db, organization } = await newTenant(fixture.db);
  const { id } = organization;
  await db.idempotency.begin(request(id));
  const other = request(id, { requestHash: new Uint8Array(32) });
  expect(await db.idempotency.begin(other)).toEqual({ kind: "mismatch" });
  const elsewhere = request(id, { route: "topic.create" });
  expect(await db.idempotency.begin(elsewhere)).toEqual({ kind: "mismatch" });
});

test("keys of two tenants and of two principals never meet", async () => {
  const [a, b] = [await newTenant(fixture.db), await newTenant(fixture.db)];
  const { db } = a;
  await db.idempotency.begin(request(a.organization.id));
  expect(await b.db.idempotency.begin(request(b.organization.id))).toEqual({ kind: "begun" });
  const principal = request(a.organization.id, { principal: "key_2" });
  expect(await db.idempotency.begin(principal)).toEqual({ kind: "begun" });
});

test("of many at once exactly one begins", async () => {
  const { db, organization } = await newTenant(fixture.db);
  const { id } = organization;
  const all = await Promise.all(Array.from({ length: 8 }, () => db.idempotency.begin(request(id))));
  expect(all.filter((begun) => begun.kind === "begun")).toHaveLength(1);
});

test("a dead process's key can be taken over, and an abandoned or expired one used again", async () => {
  const { db, organization } = await newTenant(fixture.db);
  const { id } = organization;
  await db.idempotency.begin(request(id, { lockMs: -1 }));
  expect(await db.idempotency.begin(request(id))).toEqual({ kind: "begun" });
  await db.idempotency.abandon(request(id));
  const other = request(id, { requestHash: new Uint8Array(32), keepMs: -1 });
  expect(await db.idempotency.begin(other)).toEqual({ kind: "begun" });
  await db.idempotency.complete(other, { status: 200, headers: {}, body: "" });
  expect(await db.idempotency.begin(request(id))).toEqual({ kind: "begun" });
  expect(await db.fleet.idempotency.deleteExpired()).toBe(0);
});
