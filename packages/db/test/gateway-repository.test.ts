import { createHash, randomUUID } from "node:crypto";
import { type ClusterId, newId } from "@millrace/domain";
import { runSql, setUp } from "@millrace/testkit";
import { expect, test } from "vitest";
import { type Database, type NewLink, openDatabase, type TenantDatabase } from "../src/index.ts";
import { databaseFixture, newCluster, newTenant } from "./fixture.ts";

const fixture = databaseFixture();
let gateway: Database;
let worker: Database;

setUp(async () => {
  gateway = openDatabase({ url: fixture.gatewayUrl });
  worker = openDatabase({ url: fixture.workerUrl });
  return () => Promise.all([gateway.close(), worker.close()]);
});

const newHash = () => new Uint8Array(createHash("sha256").update(randomUUID()).digest());

async function slot(): Promise<{ clusterId: ClusterId; rows: TenantDatabase }> {
  const tenant = await newTenant(fixture.db);
  const { id } = await newCluster(tenant);
  return { clusterId: id, rows: worker.tenant(tenant.organization.id) };
}

async function newGateway() {
  const identity = { id: randomUUID(), internalUrl: `http://${randomUUID()}:4101` };
  await gateway.gateways.register(identity);
  return identity;
}

function newLink(clusterId: ClusterId, ageMs = 0): NewLink {
  return {
    ...{ clusterId, brokerId: 0, linkId: randomUUID(), ageMs },
    ...{ remoteAddress: "127.0.0.1", brokerVersion: "0.1.0", brokerStart: "s" },
  };
}

test("a gateway is confined and finds a credential's slot in every tenant", async () => {
  await gateway.assertConfined();
  const { clusterId, rows } = await slot();
  const hash = newHash();
  await rows.brokerLinks.issueCredential({ clusterId, brokerId: 0 }, hash);
  expect(await gateway.gateways.slotOf(hash)).toEqual({ clusterId, brokerId: 0 });
  expect(await gateway.gateways.slotOf(newHash())).toBeUndefined();
});

test("two credentials of a slot are valid, however many are issued at a time", async () => {
  const { clusterId, rows } = await slot();
  const hashes = Array.from({ length: 6 }, newHash);
  await Promise.all(
    hashes.map((hash) => rows.brokerLinks.issueCredential({ clusterId, brokerId: 0 }, hash)),
  );
  const other = newHash();
  await rows.brokerLinks.issueCredential({ clusterId, brokerId: 1 }, other);
  const newest = newHash();
  await rows.brokerLinks.issueCredential({ clusterId, brokerId: 0 }, newest);
  const valid = await Promise.all([...hashes, newest].map((hash) => gateway.gateways.slotOf(hash)));
  expect(valid.filter((found) => found !== undefined)).toHaveLength(2);
  expect(valid.at(-1)).toBeDefined();
  expect(await gateway.gateways.slotOf(other)).toEqual({ clusterId, brokerId: 1 });
  expect(await rows.brokerLinks.revokeCredentials(clusterId)).toBe(3);
  expect(await gateway.gateways.slotOf(newest)).toBeUndefined();
});

test("nobody issues a credential for another tenant's broker", async () => {
  const [ours, theirs] = [await slot(), await slot()];
  const issued = ours.rows.brokerLinks.issueCredential(
    { clusterId: theirs.clusterId, brokerId: 0 },
    newHash(),
  );
  await expect(issued).rejects.toThrow(/row-level security/);
  expect(await ours.rows.brokerLinks.list([theirs.clusterId])).toEqual([]);
});

test("the newest link has the slot, and an older one cannot take it back", async () => {
  const { clusterId, rows } = await slot();
  const hash = newHash();
  await rows.brokerLinks.issueCredential({ clusterId, brokerId: 0 }, hash);
  const [a, b] = [await newGateway(), await newGateway()];
  const [older, newer] = [newLink(clusterId, 60_000), newLink(clusterId)];
  expect(await gateway.gateways.claim(a.id, older)).toBe(true);
  expect(await gateway.gateways.claim(b.id, newer)).toBe(true);
  expect(await gateway.gateways.claim(a.id, older)).toBe(false);
  expect((await gateway.gateways.holderOf(newer))?.gateway).toEqual(b);
  const held = (linkId: string, secretHash = hash) => ({ linkId, secretHash, silentMs: 0 });
  expect(await gateway.gateways.ended([held(older.linkId), held(newer.linkId)])).toEqual(
    new Map([[older.linkId, "replaced"]]),
  );
  // What the older one's gateway says afterwards does not count.
  await gateway.gateways.lost([{ linkId: older.linkId, silentMs: 0, endedMs: 0 }]);
  expect(await rows.brokerLinks.list([clusterId])).toMatchObject([{ state: "connected" }]);
  await rows.brokerLinks.revokeCredentials(clusterId);
  expect(await gateway.gateways.ended([held(newer.linkId)])).toEqual(
    new Map([[newer.linkId, "revoked"]]),
  );
});

test("a link tells since when its broker is connected, or was last heard from", async () => {
  const { clusterId, rows } = await slot();
  const { id } = await newGateway();
  const link = newLink(clusterId, 5_000);
  expect(await rows.brokerLinks.list([clusterId])).toEqual([]);
  await gateway.gateways.claim(id, link);
  const [connected] = await rows.brokerLinks.list([clusterId]);
  expect(connected).toMatchObject({ state: "connected", brokerId: 0, brokerVersion: "0.1.0" });
  expect(connected!.lastHeardAt.getTime() - connected!.since.getTime()).toBeGreaterThan(4_900);
  const held = { linkId: link.linkId, secretHash: newHash(), silentMs: 3_000 };
  await gateway.gateways.lost([{ ...held, endedMs: 0 }]);
  const [lost] = await rows.brokerLinks.list([clusterId]);
  expect(lost?.state).toBe("disconnected");
  expect(lost!.since.getTime() - lost!.lastHeardAt.getTime()).toBeGreaterThan(2_900);
  // Its gateway still has it: somebody else was wrong about it.
  await gateway.gateways.heard([{ ...held, silentMs: 0 }]);
  expect(await rows.brokerLinks.list([clusterId])).toMatchObject([{ state: "connected" }]);
});

test("the links of a gateway that ended are disconnected, at once where its successor has its address", async () => {
  const { clusterId, rows } = await slot();
  const killed = await newGateway();
  await gateway.gateways.claim(killed.id, newLink(clusterId));
  await gateway.gateways.register({ id: randomUUID(), internalUrl: killed.internalUrl });
  expect(await rows.brokerLinks.list([clusterId])).toMatchObject([{ state: "disconnected" }]);
  expect(await gateway.gateways.holderOf({ clusterId, brokerId: 0 })).toMatchObject({
    gateway: undefined,
  });

  const silent = await newGateway();
  await gateway.gateways.claim(silent.id, newLink(clusterId));
  await runSql(
    fixture.url,
    `UPDATE gateway SET last_seen_at = now() - interval '1 minute' WHERE id = '${silent.id}'`,
  );
  expect(await rows.brokerLinks.list([clusterId])).toMatchObject([{ state: "disconnected" }]);
  const living = await newGateway();
  // Nobody else has its address now.
  await gateway.gateways.register({ id: randomUUID(), internalUrl: silent.internalUrl });
  const left = await gateway.gateways.holderOf({ clusterId, brokerId: 0 });
  expect(left?.gateway).toBeUndefined();
  await gateway.gateways.touch(living);
});

test("a slot without a link has no holder, and one without a cluster takes none", async () => {
  const clusterId = newId("clu");
  expect(await gateway.gateways.holderOf({ clusterId, brokerId: 0 })).toBeUndefined();
  await expect(gateway.gateways.claim("g", newLink(clusterId))).rejects.toThrow(/foreign key/i);
});
