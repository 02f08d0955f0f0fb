import { newId, type OrganizationId } from "@millrace/domain";
import { runSql } from "@millrace/testkit";
import { beforeEach, expect, test, vi } from "vitest";
import { type ChainTools, verifyAuditChains } from "../src/index.ts";
import { coreFixture } from "./fixture.ts";

const fixture = coreFixture();

async function append(count: number): Promise<void> {
  const { organizationId } = fixture.principal;
  for (let index = 0; index < count; index += 1) {
    await fixture.db.api.tenant(organizationId).audit.append({
      ...{ organizationId, authMethod: "api_key", clientAddress: "::1", requestId: newId("req") },
      actor: { kind: "api_key", id: "key_a", name: "robot" },
      ...{ method: "cluster.create", targetId: undefined, result: "success", errorCode: undefined },
      ...{ request: undefined, before: undefined, after: undefined },
    });
  }
}

const HOUR_MS = 3_600_000;
const found = vi.fn();
const log = { info: () => {}, warn: () => {}, error: found };
const after = (hours: number) => ({ now: () => new Date(Date.now() + hours * HOUR_MS) });
const verify = (hours: number, db: ChainTools["db"] = fixture.db.worker) =>
  verifyAuditChains({ db, clock: after(hours), log });

beforeEach(() => void found.mockClear());

/** What nobody but the owner can do, and only without the trigger that keeps the log. */
async function tamper(change: string): Promise<void> {
  await runSql(
    fixture.ownerUrl,
    `BEGIN; ALTER TABLE audit_event DISABLE TRIGGER audit_event_is_kept;
     SET LOCAL app.owner_path = 'on'; ${change};
     ALTER TABLE audit_event ENABLE TRIGGER audit_event_is_kept; COMMIT`,
  );
}

/** Removes the last event of a chain that was verified on that day. Returns its number. */
async function loseTheEnd(day: number): Promise<bigint | undefined> {
  const { organizationId } = fixture.principal;
  await append(4);
  await verify(day * 24);
  const { intact } = await fixture.db.audit.checks(organizationId);
  await tamper(
    `DELETE FROM audit_event WHERE organization_id = '${organizationId}' AND seq = ${intact?.seq}`,
  );
  return intact?.seq;
}

test("each chain is verified once a day, from where the last verification ended", async () => {
  const { organizationId } = fixture.principal;
  const last = async () => (await fixture.db.audit.checks(organizationId)).intact;
  await append(3);
  await verify(0);
  expect(await last()).toMatchObject({ seq: 3n, fromSeq: 0n });
  await append(1);
  await verify(0);
  expect(await last()).toMatchObject({ seq: 3n });
  await verify(25);
  expect(await last()).toMatchObject({ seq: 4n, fromSeq: 3n });
  await verify(50);
  expect(await last()).toMatchObject({ seq: 4n, fromSeq: 4n });
  await verify(8 * 24);
  expect(await last()).toMatchObject({ seq: 4n, fromSeq: 0n });
  expect(found).not.toHaveBeenCalled();
});

test("a chain that lost its end is reported each time, also when it has grown again", async () => {
  const { organizationId } = fixture.principal;
  const seq = await loseTheEnd(9);
  for (const day of [10, 12]) {
    await verify(day * 24);
    expect(found).toHaveBeenCalledOnce();
    expect(found).toHaveBeenCalledWith(
      { organization: organizationId, seq: String(seq) },
      expect.stringContaining("tampered"),
    );
    found.mockClear();
    await append(1);
  }
});

test("a chain that cannot be verified does not hold up the others", async () => {
  const { worker } = fixture.db;
  const { organizationId } = fixture.principal;
  await loseTheEnd(15);
  found.mockClear();
  const others = Array.from({ length: 21 }, () => newId("org"));
  for (const id of others) {
    await fixture.db.api.tenant(id).organizations.create({ id, name: "Other", slug: id });
  }
  const tenant = (id: OrganizationId) => {
    const verifyFails = () => Promise.reject(new Error("away"));
    const { audit } = worker.tenant(id);
    const broken = others.includes(id) && { verify: verifyFails };
    return { ...worker.tenant(id), audit: { ...audit, ...broken } as never };
  };
  await verify(20 * 24, { fleet: worker.fleet, tenant });
  const failed = found.mock.calls.filter(([fields]) => "err" in fields);
  expect(failed.map(([{ organization }]) => organization).sort()).toEqual([...others].sort());
  // The oldest check comes last, after all that have none.
  expect(found).toHaveBeenLastCalledWith(
    expect.objectContaining({ organization: organizationId }),
    expect.stringContaining("tampered"),
  );
});
