import pg from "pg";
import { expect, test } from "vitest";
import type { NewTuningChange } from "../src/tuning-repository.ts";
import { databaseFixture, newCluster, newTenant } from "./fixture.ts";

const fixture = databaseFixture();

function change(version: number, changes: Partial<NewTuningChange> = {}): NewTuningChange {
  return {
    overrides: { block_cache_bytes: 1_048_576 * version },
    version,
    by: { kind: "user", id: "usr_x", name: "ann@example.com" },
    changes: [{ knob: "block_cache_bytes", from: 0, to: 1_048_576 * version, toDefault: false }],
    problem: undefined,
    at: new Date(Date.UTC(2026, 0, 1, 0, 0, version)),
    ...changes,
  };
}

test("a change and its line of history are there together, or neither is", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id, version } = await newCluster(tenant);
  await db.transaction((tx) => tx.tuning.record(id, change(1)));
  const failing = db.transaction(async (tx) => {
    await tx.tuning.record(id, change(2));
    throw new Error("the broker refused");
  });
  await expect(failing).rejects.toThrow("the broker refused");
  const cluster = await db.clusters.load(id);
  expect(cluster?.tuning).toEqual({
    overrides: { block_cache_bytes: 1_048_576 },
    version: 1,
    appliedVersion: 0,
    problem: undefined,
    updatedAt: change(1).at,
  });
  expect(cluster?.version).toBe(version + 1);
  const { items } = await db.tuning.changes(id, { limit: 10 });
  expect(items).toMatchObject([{ version: 1, by: change(1).by, changes: change(1).changes }]);
});

test("two changes never make the same version", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  await db.transaction((tx) => tx.tuning.record(id, change(1)));
  await expect(db.transaction((tx) => tx.tuning.record(id, change(1)))).rejects.toThrow();
});

test("what the broker has taken or refused counts for the version it was asked for", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  await db.tuning.record(id, change(1));
  await db.tuning.record(id, change(2));
  await db.tuning.markApplied(id, 1);
  await db.tuning.markProblem(id, 1, "too late");
  expect((await db.clusters.load(id))?.tuning).toMatchObject({ appliedVersion: 0 });
  await db.tuning.markProblem(id, 2, "too large");
  expect((await db.clusters.load(id))?.tuning).toMatchObject({ problem: "too large" });
  await db.tuning.markApplied(id, 2);
  const { tuning } = (await db.clusters.load(id))!;
  expect(tuning).toMatchObject({ appliedVersion: 2, problem: undefined });
});

test("history cannot be changed, whoever writes", async () => {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const { id } = await newCluster(tenant);
  await db.tuning.record(id, change(1));
  const client = new pg.Client({ connectionString: fixture.url });
  await client.connect();
  try {
    for (const sql of [
      "UPDATE tuning_change SET principal_name = 'nobody'",
      "DELETE FROM tuning_change",
      "TRUNCATE tuning_change",
    ]) {
      await expect(client.query(sql)).rejects.toThrow("only ever added to");
    }
  } finally {
    await client.end();
  }
  expect((await db.tuning.changes(id, { limit: 10 })).items).toHaveLength(1);
});
