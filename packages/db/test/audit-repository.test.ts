import type { AuditEvent } from "@millrace/domain";
import { expect, test } from "vitest";
import { openDatabase } from "../src/index.ts";
import { databaseFixture, newTenant, type Tenant } from "./fixture.ts";
import { withClient } from "./tenant-rows.ts";

const fixture = databaseFixture();
const EMPTY = { seq: 0n, hash: new Uint8Array() };

function event(tenant: Tenant, changes: Partial<AuditEvent> = {}) {
  return {
    ...{ organizationId: tenant.organization.id, authMethod: "session" as const },
    actor: { kind: "user" as const, id: "usr_a", name: "ann@example.com" },
    ...{ clientAddress: "192.0.2.1", requestId: "req_1", method: "cluster.update" },
    ...{ targetId: "clu_a", result: "success" as const, errorCode: undefined },
    ...{ request: { b: 1, a: "ü" }, before: { size: "dev" }, after: { size: "large" } },
    ...changes,
  };
}

async function newChain(length: number): Promise<Tenant> {
  const tenant = await newTenant(fixture.db);
  for (let index = 0; index < length; index += 1) {
    await tenant.db.audit.append(event(tenant, { requestId: `req_${index}` }));
  }
  return tenant;
}

const verify = ({ db, organization }: Tenant, limit = 100) =>
  db.audit.verify(organization.id, EMPTY, limit);

test("events are numbered and chained per organization, also when many come at once", async () => {
  const [a, b] = [await newTenant(fixture.db), await newTenant(fixture.db)];
  await Promise.all(
    Array.from({ length: 40 }, (_, index) => {
      const tenant = index % 2 === 0 ? a : b;
      return tenant.db.audit.append(event(tenant));
    }),
  );
  for (const tenant of [a, b]) {
    const { items } = await tenant.db.audit.list(tenant.organization.id, { limit: 100 });
    expect(items.map(({ seq }) => Number(seq)).sort((x, y) => x - y)).toEqual(
      Array.from({ length: 20 }, (_, index) => index + 1),
    );
    expect(await verify(tenant)).toMatchObject({ head: { seq: 20n }, brokenSeq: undefined });
  }
});

test("an event reads back as it was written, and a filter finds it", async () => {
  const tenant = await newChain(2);
  const { audit } = tenant.db;
  const { id } = tenant.organization;
  await audit.append(
    event(tenant, { method: "topic.create", result: "denied", targetId: "clu_b" }),
  );
  const list = async (filter: Parameters<typeof audit.list>[2]) =>
    (await audit.list(id, { limit: 10 }, filter)).items.map(({ seq }) => Number(seq));
  const [newest] = (await audit.list(id, { limit: 1 })).items;
  expect(newest).toMatchObject({
    ...event(tenant),
    method: "topic.create",
    result: "denied",
    targetId: "clu_b",
  });
  expect(await list({ method: "topic" })).toEqual([3]);
  expect(await list({ method: "topic.create" })).toEqual([3]);
  expect(await list({ method: "top" })).toEqual([]);
  expect(await list({ result: "success" })).toEqual([2, 1]);
  expect(await list({ targetId: "clu_b", actorId: "usr_a" })).toEqual([3]);
  expect(await list({ to: newest!.createdAt, from: new Date(0) })).not.toContain(3);
  expect(await list({ from: new Date(Date.now() + 60_000) })).toEqual([]);
});

test("nobody changes or removes an event: the roles have no right to, a trigger refuses the owner", async () => {
  const tenant = await newChain(1);
  const statements = [
    "UPDATE audit_event SET actor_name = 'nobody'",
    "DELETE FROM audit_event",
    "TRUNCATE audit_event",
  ];
  for (const url of [fixture.apiUrl, fixture.workerUrl]) {
    await withClient(url, async (client) => {
      await client.query("SELECT set_config('app.organization_id', $1, false)", [
        tenant.organization.id,
      ]);
      for (const sql of statements)
        await expect(client.query(sql)).rejects.toThrow(/permission denied/);
    });
  }
  await withClient(fixture.url, async (owner) => {
    for (const sql of statements)
      await expect(owner.query(sql)).rejects.toThrow(/only ever added to/);
  });
});

test("whoever may insert chooses neither number nor time nor hash", async () => {
  const tenant = await newChain(1);
  await withClient(fixture.apiUrl, async (client) => {
    await client.query("SELECT set_config('app.organization_id', $1, false)", [
      tenant.organization.id,
    ]);
    await client.query(
      `INSERT INTO audit_event (organization_id, seq, id, created_at, actor_kind, actor_id, actor_name,
        auth_method, client_address, request_id, method, result, previous_hash, hash)
       VALUES ($1, 99, 'aud_forged', '2001-01-01', 'user', 'u', 'n', 'session', '::1', 'r', 'm', 'success', '', '')`,
      [tenant.organization.id],
    );
  });
  const [forged] = (await tenant.db.audit.list(tenant.organization.id, { limit: 1 })).items;
  expect(forged?.seq).toBe(2n);
  expect(forged?.createdAt.getFullYear()).toBeGreaterThan(2020);
  expect((await verify(tenant)).brokenSeq).toBeUndefined();
});

test.each([
  ["a field", "UPDATE audit_event SET actor_name = 'nobody' WHERE seq = 3", 3n],
  ["a detail", `UPDATE audit_event SET after = '{"size": "dev"}' WHERE seq = 2`, 2n],
  [
    "a platform operator who was added",
    `UPDATE audit_event SET impersonator = '{"id": "usr_1", "name": "o"}' WHERE seq = 3`,
    3n,
  ],
  ["an absent field", "UPDATE audit_event SET error_code = '' WHERE seq = 4", 4n],
  ["an event that is gone", "DELETE FROM audit_event WHERE seq = 2", 3n],
  ["the first ones that are gone", "DELETE FROM audit_event WHERE seq < 3", 3n],
  [
    "an event with a hash of its own",
    `UPDATE audit_event e SET actor_name = 'x',
       hash = audit_event_hash(previous_hash, (SELECT f FROM audit_event f WHERE f.id = e.id)) WHERE seq = 2`,
    2n,
  ],
  ["an event that was moved", "UPDATE audit_event SET seq = 30 WHERE seq = 2", 3n],
])("a verification finds %s", async (_, tampering, brokenSeq) => {
  const tenant = await newChain(5);
  expect((await verify(tenant)).brokenSeq).toBeUndefined();
  await withClient(fixture.url, async (owner) => {
    await owner.query("BEGIN; SET LOCAL session_replication_role = replica");
    const mine = `organization_id = '${tenant.organization.id}'`;
    const sql = `${tampering} AND ${mine}`;
    await owner.query(sql);
    await owner.query("COMMIT");
  });
  expect((await verify(tenant)).brokenSeq).toBe(brokenSeq);
  // In parts, as long chains are verified.
  const parts = [];
  for (let head = EMPTY as Awaited<ReturnType<typeof verify>>["head"]; ; ) {
    const part = await tenant.db.audit.verify(tenant.organization.id, head, 1);
    parts.push(part.brokenSeq);
    if (part.head.seq === head.seq) break;
    head = part.head;
  }
  expect(parts.find((seq) => seq !== undefined)).toBe(brokenSeq);
});

test("the API writes events, and the worker only reads and checks them", async () => {
  const tenant = await newChain(1);
  const { id } = tenant.organization;
  const worker = openDatabase({ url: fixture.workerUrl });
  try {
    const { audit } = worker.tenant(id);
    await expect(audit.append(event(tenant))).rejects.toThrow(/permission denied/);
    const { head } = await audit.verify(id, EMPTY, 10);
    expect(await worker.fleet.audit.checkDue(new Date(), 10_000)).toContain(id);
    await audit.recordCheck(id, {
      ...head,
      fromSeq: 0n,
      checkedAt: new Date(),
      brokenSeq: undefined,
    });
    expect(await worker.fleet.audit.checkDue(new Date(Date.now() - 60_000), 10_000)).not.toContain(
      id,
    );
    const last = (await audit.checks(id)).intact;
    expect(last?.seq).toBe(1n);
    expect(await audit.has(id, last!)).toBe(true);
    expect(await audit.has(id, { ...last!, hash: new Uint8Array(32) })).toBe(false);
  } finally {
    await worker.close();
  }
});

test("a list of one target or actor is read in its order from an index", async () => {
  const { organization, db } = await newChain(1);
  await withClient(fixture.url, async (owner) => {
    await owner.query("SET app.owner_path = 'on'");
    await owner.query(
      `INSERT INTO audit_event (organization_id, id, actor_kind, actor_id, actor_name, auth_method,
         client_address, request_id, method, target_id, result)
       SELECT $1, 'aud_many_' || n, 'user', 'usr_' || n % 100, 'a', 'session', '::1', 'r', 'cluster.update',
         'clu_' || n % 100, 'success' FROM generate_series(1, 3000) AS n`,
      [organization.id],
    );
    await owner.query("ANALYZE audit_event");
    for (const column of ["target_id", "actor_id"]) {
      const { rows } = await owner.query(
        `EXPLAIN SELECT * FROM audit_event WHERE organization_id = '${organization.id}'
           AND ${column} = '${column === "target_id" ? "clu_7" : "usr_7"}' AND seq < 2000
         ORDER BY seq DESC LIMIT 51`,
      );
      const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
      expect(plan).toContain(`audit_event_organization_id_${column}_seq_idx`);
      expect(plan).not.toContain("Sort");
    }
  });
  const { items } = await db.audit.list(organization.id, { limit: 3 }, { targetId: "clu_7" });
  expect(items.map(({ id }) => id)).toEqual(["aud_many_2907", "aud_many_2807", "aud_many_2707"]);
});
