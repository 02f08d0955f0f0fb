import { newId } from "@millrace/domain";
import { expect, test } from "vitest";
import { PlacementTaken } from "../src/index.ts";
import { databaseFixture, newCluster, newTenant } from "./fixture.ts";

const fixture = databaseFixture();

test("a cluster reads back as it was written, for its own tenant only", async () => {
  const [ours, theirs] = [await newTenant(fixture.db), await newTenant(fixture.db)];
  const { db } = ours;
  const cluster = await newCluster(ours);
  expect(cluster).toMatchObject({ phase: "PROVISIONING", version: 1, labels: { team: "a" } });
  expect(await db.clusters.get(ours.organization.id, cluster.id)).toEqual(cluster);
  for (const stranger of [db, theirs.db]) {
    const { clusters } = stranger;
    expect(await clusters.get(theirs.organization.id, cluster.id)).toBeUndefined();
    expect((await clusters.list(theirs.organization.id, { limit: 10 })).items).toEqual([]);
    expect(await clusters.lock(theirs.organization.id, cluster.id)).toBeUndefined();
  }
  expect(await theirs.db.clusters.load(cluster.id)).toBeUndefined();
  expect(await theirs.db.clusters.changePhase(cluster.id, { to: "RUNNING" })).toBeUndefined();
});

test("a name is taken within its environment, and free again after deletion", async () => {
  const [ours, theirs] = [await newTenant(fixture.db), await newTenant(fixture.db)];
  const { db } = ours;
  const first = await newCluster(ours);
  await newCluster(theirs);
  await expect(newCluster(ours)).rejects.toMatchObject({ code: "cluster_name_taken" });
  await db.clusters.changePhase(first.id, { to: "DELETING" });
  await expect(newCluster(ours)).rejects.toMatchObject({ code: "cluster_name_taken" });
  await db.clusters.changePhase(first.id, { to: "DELETED" });
  const second = await newCluster(ours);
  expect(second.id).not.toBe(first.id);
  expect(await db.clusters.get(ours.organization.id, first.id)).toBeUndefined();
});

test("the phase changes only along the state machine, and each write raises the version", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  expect(await db.clusters.changePhase(id, { to: "DEGRADED" })).toBeUndefined();
  const running = await db.clusters.changePhase(id, { to: "RUNNING", observed: true });
  expect(running).toMatchObject({ phase: "RUNNING", version: 2, observedRevision: 1 });
  expect(await db.clusters.changePhase(id, { to: "DELETING", from: ["DEGRADED"] })).toBeUndefined();
  expect((await db.clusters.load(id))?.phase).toBe("RUNNING");
});

test("of two changes at once from the same phase exactly one happens", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  const outcomes = await Promise.all(
    Array.from({ length: 8 }, () => db.clusters.changePhase(id, { to: "RUNNING" })),
  );
  expect(outcomes.filter((outcome) => outcome !== undefined)).toHaveLength(1);
});

test("two clusters never hold the same port", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const [a, b] = [await newCluster(tenant, "a"), await newCluster(tenant, "b")];
  const placement = { host: "127.0.0.1", kafkaPort: 19092, adminPort: 29092 };
  await db.clusters.recordPlacement(a.id, placement);
  expect(await db.clusters.placements()).toEqual([placement]);
  await expect(
    db.clusters.recordPlacement(b.id, { ...placement, adminPort: 29093 }),
  ).rejects.toThrow(PlacementTaken);
  await db.clusters.releasePlacement(a.id);
  await db.clusters.recordPlacement(b.id, placement);
  expect((await db.clusters.load(b.id))?.placement).toEqual(placement);
});

test("clusters without an admin port hold their other ports", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const [a, b] = [await newCluster(tenant, "a"), await newCluster(tenant, "b")];
  const placement = { host: "127.0.0.2", kafkaPort: 19092, tlsPort: 20092 };
  await db.clusters.recordPlacement(a.id, placement);
  expect((await db.clusters.load(a.id))?.placement).toEqual(placement);
  await expect(db.clusters.recordPlacement(b.id, placement)).rejects.toThrow("19092, 20092");
  await db.clusters.recordPlacement(b.id, { ...placement, kafkaPort: 19093, tlsPort: 20093 });
  const held = (await db.clusters.placements()).filter(({ host }) => host === placement.host);
  expect(held).toHaveLength(2);
  await db.clusters.releasePlacement(a.id);
  await db.clusters.releasePlacement(b.id);
});

test("pages cover a list once, newest first", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const names = Array.from({ length: 7 }, (_, index) => `c${index}`);
  for (const name of names) await newCluster(tenant, name);
  const seen: string[] = [];
  let page = await db.clusters.list(tenant.organization.id, { limit: 3 });
  seen.push(...page.items.map((cluster) => cluster.name));
  while (page.next) {
    page = await db.clusters.list(tenant.organization.id, { limit: 3, after: page.next });
    seen.push(...page.items.map((cluster) => cluster.name));
  }
  expect(seen).toEqual(names.reverse());
});

test("an unknown environment holds no clusters", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  await newCluster(tenant);
  const filter = { environmentId: newId("env") };
  const page = await db.clusters.list(tenant.organization.id, { limit: 3 }, filter);
  expect(page).toEqual({ items: [], next: undefined });
});
