/** Clusters whose data a purge has begun to destroy, whatever happened to them since. */
import { expect, test } from "vitest";
import { deleteCluster, restoreCluster, retryOperation, updateCluster } from "../src/index.ts";
import { coreFixture } from "./fixture.ts";
import { allow, DAY_MS, lives, refuse } from "./lives.ts";

const fixture = coreFixture();
const of = lives(fixture);
const ask = () => [of.core(), fixture.principal] as const;
const MINUTE_MS = 60_000;
const NOT_READY = { code: "cluster_not_ready" };

test("a purge that failed half-way is not undone by one that failed before it began", async () => {
  const tools = of.toolsEverywhere();
  const { id } = await of.remote(true);
  const deleted = await of.deletion(tools, await of.load({ id }), 7);
  expect(deleted.cluster.phase).toBe("PENDING_PURGE");

  refuse(tools, "destroy");
  const first = await deleteCluster(...ask(), { clusterId: id, retainDays: 0 });
  expect(await of.run(tools, first)).toBe("failed");
  // The next one does not get so far.
  refuse(tools, "plan");
  await of.schedule(8 * DAY_MS);
  const second = await of.newest({ id });
  expect(second).toMatchObject({ kind: "cluster.purge" });
  expect(second.id).not.toBe(first.id);
  expect(await of.run(tools, second)).toBe("failed");

  await expect(restoreCluster(...ask(), { clusterId: id })).rejects.toMatchObject(NOT_READY);
  const patch = { size: "small" } as const;
  await expect(updateCluster(...ask(), { clusterId: id, patch })).rejects.toMatchObject(NOT_READY);
  allow(tools);
  await retryOperation(...ask(), second.id);
  expect(await of.run(tools, second)).toBe("succeeded");
  expect((await of.load({ id })).phase).toBe("DELETED");
});

test("a purge that never began leaves a cluster that can be brought back", async () => {
  const tools = of.toolsEverywhere();
  const { id } = await of.remote(true);
  await of.deletion(tools, await of.load({ id }), 7);
  refuse(tools, "plan");
  const purge = await deleteCluster(...ask(), { clusterId: id, retainDays: 0 });
  expect(await of.run(tools, purge)).toBe("failed");
  allow(tools);
  const restoring = await restoreCluster(...ask(), { clusterId: id });
  expect(await of.run(tools, restoring)).toBe("succeeded");
});

test("a deletion with the data that failed half-way is not forgotten for a second one", async () => {
  const tools = of.tools();
  const { id } = await of.running(tools);
  refuse(tools, "destroy");
  expect((await of.deletion(tools, await of.load({ id }), 0)).result).toBe("failed");
  // Somebody has started the broker on what is left, and it does not stop.
  tools.driver.states.set(id, "ready");
  refuse(tools, "stop");
  expect((await of.deletion(tools, await of.load({ id }), 7)).result).toBe("failed");
  await expect(restoreCluster(...ask(), { clusterId: id })).rejects.toMatchObject(NOT_READY);
});

test("the database keeps what is left of a cluster from being served", async () => {
  const tools = of.tools();
  const { id } = await of.running(tools);
  refuse(tools, "destroy");
  await of.deletion(tools, await of.load({ id }), 0);
  const change = fixture.db.clusters.changePhase(id, { to: "UPDATING" });
  await expect(change).rejects.toThrow(/cluster_data_destroyed/);
});

test("what is left is destroyed when asked for, whoever has the cluster's name by now", async () => {
  const tools = of.tools();
  const { cluster } = await of.deletion(tools, await of.running(tools), 7);
  await of.running(tools, cluster.name);
  for (const effect of ["stop", "destroy"]) {
    refuse(tools, effect);
    tools.driver.states.set(cluster.id, effect === "stop" ? "ready" : "stopped");
    const input = { clusterId: cluster.id, retainDays: 0 };
    expect(await of.run(tools, await deleteCluster(...ask(), input))).toBe("failed");
  }
  allow(tools);
  const last = await deleteCluster(...ask(), { clusterId: cluster.id });
  expect(last.kind).toBe("cluster.purge");
  expect(await of.run(tools, last)).toBe("succeeded");
  expect((await of.load(cluster)).phase).toBe("DELETED");
});

test("what is found after a purge is destroyed by it", async () => {
  const tools = of.toolsEverywhere();
  const { id } = await of.remote(true);
  await of.deletion(tools, await of.load({ id }), 7);
  const stray = { id: "vol-1", address: "aws_ebs_volume.wal_0" };
  const sweeps = [{}, { imported: [stray] }, {}, { left: [stray] }];
  tools.driver.sweep = async () => {
    const found = sweeps.shift() ?? {};
    return { imported: [], removed: [], left: [], ...found };
  };
  let purges = 0;
  const destroy = tools.driver.apply.bind(tools.driver);
  tools.driver.apply = async (...args) => {
    purges += 1;
    await destroy(...args);
  };
  const purge = await deleteCluster(...ask(), { clusterId: id, retainDays: 0 });
  expect(await of.run(tools, purge)).toBe("succeeded");
  expect(purges).toBe(3);
  expect((await of.load({ id })).phase).toBe("DELETED");
  const log = await fixture.db.operations.events(purge.id, 0, 200);
  const told = log.filter(({ step, kind }) => step === "verify_gone" && kind === "log");
  const again = { message: expect.stringMatching(/^Planning again: .*vol-1/) };
  const found = { address: stray.address };
  expect(told).toMatchObject([found, again, found, again]);
});

test("a purge that finds something every time says what it is", async () => {
  const tools = of.toolsEverywhere();
  const { id } = await of.remote(true);
  await of.deletion(tools, await of.load({ id }), 7);
  const stray = { id: "vol-1", address: "aws_ebs_volume.wal_0" };
  tools.driver.sweep = async () => ({ imported: [], removed: [], left: [stray] });
  const purge = await deleteCluster(...ask(), { clusterId: id, retainDays: 0 });
  expect(await of.run(tools, purge)).toBe("failed");
  const { error } = await of.newest({ id });
  expect(error).toMatchObject({ step: "verify_gone", message: expect.stringContaining("vol-1") });
});

test("what a purge is about to destroy is on record before it is touched", async () => {
  const tools = of.toolsEverywhere();
  const { id } = await of.remote(true);
  await of.deletion(tools, await of.load({ id }), 7);
  const seen: unknown[] = [];
  tools.driver.before = async (effect) => {
    if (effect === "destroy") seen.push((await of.load({ id })).dataDestroyedAt);
  };
  const purge = await deleteCluster(...ask(), { clusterId: id, retainDays: 0 });
  expect(await of.run(tools, purge)).toBe("succeeded");
  expect(seen).toEqual([expect.any(Date)]);
});

test("a purge that is refused before it touches anything leaves the data whole", async () => {
  const tools = of.toolsEverywhere();
  const { id } = await of.remote(true);
  await of.deletion(tools, await of.load({ id }), 7);
  refuse(tools, "apply");
  const purge = await deleteCluster(...ask(), { clusterId: id, retainDays: 0 });
  expect(await of.run(tools, purge)).toBe("failed");
  expect(await of.load({ id })).toMatchObject({ phase: "FAILED", dataDestroyedAt: undefined });
  allow(tools);
  const restoring = await restoreCluster(...ask(), { clusterId: id });
  expect(await of.run(tools, restoring)).toBe("succeeded");
});

test("a purge by a worker that has lost its operation destroys nothing", async () => {
  const tools = of.toolsEverywhere();
  const { id } = await of.remote(true);
  await of.deletion(tools, await of.load({ id }), 7);
  tools.driver.states.set(id, "stopped");
  const purge = await deleteCluster(...ask(), { clusterId: id, retainDays: 0 });
  tools.driver.before = async (effect) => {
    if (effect !== "apply") return;
    const lapsed = { operationId: purge.id, attempt: 1 };
    await fixture.db.journal.release(lapsed);
    await fixture.db.transaction((tx) => tx.journal.claim(purge.id, "another", 60_000));
  };
  expect(await of.run(tools, purge)).toBe("lost");
  expect(tools.driver.effects.filter((effect) => effect.startsWith("destroy"))).toEqual([]);
  expect((await of.load({ id })).dataDestroyedAt).toBeUndefined();
});

test("a purge that fails is begun again later each time, once a day in the end", async () => {
  const tools = of.tools();
  const { cluster } = await of.deletion(tools, await of.running(tools), 1);
  refuse(tools, "destroy");
  const purge = await deleteCluster(...ask(), { clusterId: cluster.id, retainDays: 0 });
  expect(await of.run(tools, purge)).toBe("failed");
  const yesterday = { purgeAt: new Date(Date.now() - DAY_MS), needsOperation: false };
  await fixture.db.clusters.changeSpec(cluster.id, yesterday);
  const waits = [10, 20, 40, 80, 160, 320, 640, 1_280, 1_440, 1_440];
  for (const minutes of waits) {
    const before = await of.newest(cluster);
    await of.schedule((minutes - 2) * MINUTE_MS);
    expect([minutes, (await of.newest(cluster)).id]).toEqual([minutes, before.id]);
    await of.schedule((minutes + 1) * MINUTE_MS);
    const next = await of.newest(cluster);
    expect([minutes, next.id]).not.toEqual([minutes, before.id]);
    expect(await of.run(tools, next)).toBe("failed");
  }
});
