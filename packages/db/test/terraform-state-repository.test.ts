import type { ClusterId } from "@millrace/domain";
import { tablesWith } from "@millrace/testkit";
import pg from "pg";
import { expect, test } from "vitest";
import { type Fence, LeaseLost, StateVersionTaken } from "../src/index.ts";
import type { SealedState } from "../src/terraform-state-repository.ts";
import { STATE_VERSIONS_MAX } from "../src/terraform-state-repository.ts";
import { databaseFixture, newCluster, newTenant, type Tenant } from "./fixture.ts";

const fixture = databaseFixture();
const LEASE_MS = 60_000;

/** A state, and its tenant's database. */
async function newState(): Promise<{ state: SealedState; db: Tenant["db"] }> {
  const tenant = await newTenant(fixture.db);
  const cluster = await newCluster(tenant);
  const state: SealedState = {
    organizationId: cluster.organizationId,
    clusterId: cluster.id,
    version: 1,
    serial: 4,
    lineage: "a-b-c",
    ciphertext: Buffer.from([0, 255, 1]),
    wrappedKey: Buffer.from([9]),
    keyId: "file:1",
  };
  return { state, db: tenant.db };
}

async function claimed(
  db: Tenant["db"],
  { organizationId, clusterId }: SealedState,
): Promise<Fence> {
  const operation = await db.operations.create({
    organizationId,
    clusterId,
    kind: "cluster.update",
  });
  const { attempt } = (await db.journal.claim(operation.id, "w", LEASE_MS))!;
  return { operationId: operation.id, attempt };
}

test("the newest version is what is loaded, and is what was saved", async () => {
  const { db, state } = await newState();
  const { terraformStates } = db;
  expect(await terraformStates.load(state.clusterId)).toBeUndefined();
  await terraformStates.save(state, undefined);
  const second = { ...state, version: 2, serial: 5, ciphertext: Buffer.from("x") };
  await terraformStates.save(second, undefined);
  const loaded = await terraformStates.load(state.clusterId);
  expect({ ...loaded, ciphertext: Buffer.from(loaded?.ciphertext ?? []).toString() }).toMatchObject(
    {
      ...{ organizationId: state.organizationId, version: 2, serial: 5, lineage: "a-b-c" },
      ...{ ciphertext: "x", keyId: "file:1" },
    },
  );
  expect(await db.fleet.terraformStates.clusterIds()).toContain(state.clusterId);
});

test("of two who write the same version, one is told", async () => {
  const { db, state } = await newState();
  const { terraformStates } = db;
  const saves = [1, 2].map(() => terraformStates.save(state, undefined));
  const results = await Promise.allSettled(saves);
  const refused = results.filter((result) => result.status === "rejected");
  expect(refused).toHaveLength(1);
  expect(refused[0]?.reason).toBeInstanceOf(StateVersionTaken);
});

test("an attempt that lost its operation writes nothing, nor does another cluster's", async () => {
  const { db, state } = await newState();
  const fence = await claimed(db, state);
  await db.terraformStates.save(state, fence);
  await db.journal.release(fence);
  const next = (await db.journal.claim(fence.operationId, "other", LEASE_MS))!;
  const second = { ...state, version: 2 };
  await expect(db.terraformStates.save(second, fence)).rejects.toBeInstanceOf(LeaseLost);
  const other = await newState();
  const strangers = await claimed(other.db, other.state);
  await expect(db.terraformStates.save(second, strangers)).rejects.toBeInstanceOf(LeaseLost);
  expect((await db.terraformStates.load(state.clusterId))?.version).toBe(1);
  await db.terraformStates.save(second, { ...fence, attempt: next.attempt });
  expect((await db.terraformStates.load(state.clusterId))?.version).toBe(2);
});

test("a state is not taken under another tenant's name", async () => {
  const { db, state } = await newState();
  const { terraformStates } = db;
  const { organizationId } = (await newState()).state;
  const save = terraformStates.save({ ...state, organizationId }, undefined);
  await expect(save).rejects.toBeInstanceOf(LeaseLost);
  expect(await terraformStates.load(state.clusterId)).toBeUndefined();
});

test("old versions go, and nothing is left when the cluster is gone", async () => {
  const { db, state } = await newState();
  const { terraformStates } = db;
  for (let version = 1; version <= STATE_VERSIONS_MAX + 3; version += 1) {
    await terraformStates.save({ ...state, version }, undefined);
  }
  expect(await versionsOf(state.clusterId)).toEqual(
    Array.from({ length: STATE_VERSIONS_MAX }, (_, index) => index + 4),
  );
  await terraformStates.forget(state.clusterId);
  expect(await versionsOf(state.clusterId)).toEqual([]);
});

test("the drill's search for plain text finds what stands in a column of bytes or of JSON", async () => {
  const { url } = fixture;
  const { db, state } = await newState();
  const canary = `canary ${state.clusterId}`;
  expect(await tablesWith(url, [canary])).toEqual([]);
  await db.terraformStates.save({ ...state, ciphertext: Buffer.from(`x${canary}x`) }, undefined);
  expect(await tablesWith(url, [canary])).toEqual(["terraform_state"]);
  const { operationId } = await claimed(db, state);
  const plan = { planId: "p", digest: "d", plan: { diff: canary }, cost: null };
  await db.operationPlans.save(operationId, plan);
  expect((await tablesWith(url, [canary])).sort()).toEqual(["operation_plan", "terraform_state"]);
});

test("a key is rewrapped for the newest version only", async () => {
  const { db, state } = await newState();
  const { terraformStates } = db;
  await terraformStates.save(state, undefined);
  const wrapped = { wrappedKey: Buffer.from([7]), keyId: "file:2" };
  await terraformStates.rewrap(state, wrapped);
  const first = await terraformStates.load(state.clusterId);
  expect([first?.keyId, [...(first?.wrappedKey ?? [])]]).toEqual(["file:2", [7]]);
  await terraformStates.save({ ...state, version: 2 }, undefined);
  await terraformStates.rewrap({ ...state, keyId: "file:2" }, { ...wrapped, keyId: "file:3" });
  expect((await terraformStates.load(state.clusterId))?.keyId).toBe("file:1");
});

async function versionsOf(clusterId: ClusterId): Promise<number[]> {
  const client = new pg.Client({ connectionString: fixture.url });
  await client.connect();
  try {
    const { rows } = await client.query(
      "SELECT version FROM terraform_state WHERE cluster_id = $1 ORDER BY version",
      [clusterId],
    );
    return rows.map((row) => row.version);
  } finally {
    await client.end();
  }
}
