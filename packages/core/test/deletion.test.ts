import type { Cluster } from "@millrace/domain";
import { expect, test } from "vitest";
import {
  deleteCluster,
  previewDelete,
  restoreCluster,
  retryOperation,
  updateCluster,
} from "../src/index.ts";
import { coreFixture } from "./fixture.ts";
import { allow, DAY_MS, lives, refuse } from "./lives.ts";

const fixture = coreFixture();
const of = lives(fixture);
const ask = () => [of.core(), fixture.principal] as const;

test("a deletion that is asked for again destroys nothing that was to be kept", async () => {
  const tools = of.tools();
  const { cluster, operation } = await of.deletion(tools, await of.running(tools), 30);
  expect(cluster.phase).toBe("PENDING_PURGE");
  for (const retainDays of [30, undefined, 1]) {
    const again = await deleteCluster(...ask(), { clusterId: cluster.id, retainDays });
    expect(again).toMatchObject({ id: operation.id, kind: "cluster.delete", phase: "SUCCEEDED" });
  }
  expect(await of.load(cluster)).toMatchObject({
    phase: "PENDING_PURGE",
    purgeAt: cluster.purgeAt,
  });
  const purge = await deleteCluster(...ask(), { clusterId: cluster.id, retainDays: 0 });
  expect(purge.kind).toBe("cluster.purge");
});

test("a cluster that was not seen to serve keeps its data where that is asked for", async () => {
  const tools = of.tools();
  refuse(tools, "wait");
  const late = await of.running(tools);
  allow(tools);
  expect([late.phase, late.observedRevision]).toEqual(["FAILED", 0]);
  // Nobody knows whether it served after all: who says that the data is to stay keeps it.
  const kept = await of.deletion(tools, late, 30);
  expect([kept.result, kept.cluster.phase]).toEqual(["succeeded", "PENDING_PURGE"]);

  refuse(tools, "wait");
  const unasked = await of.running(tools);
  allow(tools);
  const gone = await deleteCluster(...ask(), { clusterId: unasked.id });
  expect(gone.parameters.retainDays).toBe(0);

  // No broker of this one was ever begun.
  const never = await of.remote(false);
  const empty = await deleteCluster(...ask(), { clusterId: never.id, retainDays: 30 });
  expect(empty.parameters.retainDays).toBe(0);
});

test("a deletion that failed and is asked for again keeps what the first one was to keep", async () => {
  const { signal } = new AbortController();
  const again = async (at: ReturnType<typeof of.tools>, failed: Cluster) => {
    const input = { clusterId: failed.id };
    const until = failed.purgeAt?.toISOString() ?? "never";
    const shown = await previewDelete(...ask(), input, signal);
    expect(shown.warnings.join(" ")).toContain(until);
    const second = await deleteCluster(...ask(), input);
    expect(second.kind).toBe("cluster.delete");
    expect(await of.run(at, second)).toBe("succeeded");
    expect(await of.load(failed)).toMatchObject({
      phase: "PENDING_PURGE",
      purgeAt: failed.purgeAt,
    });
  };

  // What is on this machine is kept only where that was asked for.
  const tools = of.tools();
  await again(tools, (await of.notDeleted(tools, 30)).cluster);

  // It served unseen, if at all.
  refuse(tools, "wait");
  const late = await of.running(tools);
  refuse(tools, "stop");
  tools.driver.states.set(late.id, "ready");
  const { cluster } = await of.deletion(tools, late, 30);
  expect(cluster).toMatchObject({ phase: "FAILED", observedRevision: 0 });
  allow(tools);
  await again(tools, cluster);

  // Elsewhere a week is usual.
  const everywhere = of.toolsEverywhere();
  const { id } = await of.remote(true);
  refuse(everywhere, "plan");
  const remote = await of.deletion(everywhere, await of.load({ id }), 30);
  allow(everywhere);
  expect(remote.cluster.phase).toBe("FAILED");
  const kept = await deleteCluster(...ask(), { clusterId: id });
  expect(await of.run(everywhere, kept)).toBe("succeeded");
  expect((await of.load({ id })).purgeAt).toEqual(remote.cluster.purgeAt);
});

test("a deletion that failed and is asked for again with 0 days destroys the data", async () => {
  const tools = of.tools();
  const { cluster } = await of.notDeleted(tools, 30);
  const purge = await deleteCluster(...ask(), { clusterId: cluster.id, retainDays: 0 });
  expect(purge.kind).toBe("cluster.purge");
  expect(await of.run(tools, purge)).toBe("succeeded");
  expect((await of.load(cluster)).phase).toBe("DELETED");
});

test("a preview of a deletion says what the deletion does", async () => {
  const tools = of.tools();
  const { cluster } = await of.deletion(tools, await of.running(tools), 30);
  const until = cluster.purgeAt?.toISOString() ?? "never";
  const { signal } = new AbortController();
  const again = await previewDelete(...ask(), { clusterId: cluster.id }, signal);
  expect(again.plan.changes).toEqual([]);
  expect(again.costDelta).toBe(0);
  expect(again.warnings.join(" ")).toContain(until);
  const purge = await previewDelete(...ask(), { clusterId: cluster.id, retainDays: 0 }, signal);
  expect(purge.warnings).toContain("All records are deleted permanently.");
});

test("a cluster that outlives its deletion is not purged, and can be brought back", async () => {
  const tools = of.tools();
  const { cluster, result } = await of.notDeleted(tools, 1);
  expect([result, cluster.phase]).toEqual(["failed", "FAILED"]);
  await of.schedule(3 * DAY_MS);
  expect((await of.newest(cluster)).kind).toBe("cluster.delete");
  const restoring = await restoreCluster(...ask(), { clusterId: cluster.id });
  expect(await of.run(tools, restoring)).toBe("succeeded");
  expect(await of.load(cluster)).toMatchObject({ phase: "RUNNING", purgeAt: undefined });
  await of.schedule(3 * DAY_MS);
  expect((await of.newest(cluster)).kind).toBe("cluster.restore");
});

test("what is left of a cluster is not brought back as if it were whole", async () => {
  const tools = of.tools();
  const running = await of.running(tools);
  refuse(tools, "destroy");
  const { cluster } = await of.deletion(tools, running, 0);
  allow(tools);
  expect(cluster.phase).toBe("FAILED");
  await expect(restoreCluster(...ask(), { clusterId: cluster.id })).rejects.toMatchObject({
    code: "cluster_not_ready",
  });
  // Nothing of it can be kept any more.
  const again = await deleteCluster(...ask(), { clusterId: cluster.id, retainDays: 7 });
  expect(await of.run(tools, again)).toBe("succeeded");
  expect((await of.load(cluster)).phase).toBe("DELETED");
});

test("a protected cluster is not deleted by a retry", async () => {
  const tools = of.tools();
  const { cluster, operation } = await of.notDeleted(tools, 0);
  const patch = { deletionProtection: true };
  await updateCluster(...ask(), { clusterId: cluster.id, patch });
  await expect(retryOperation(...ask(), operation.id)).rejects.toMatchObject({
    code: "deletion_protected",
  });
  expect((await of.load(cluster)).phase).toBe("FAILED");
});

test("whoever may not delete a cluster does not retry its deletion either", async () => {
  const tools = of.tools();
  const { cluster, operation } = await of.notDeleted(tools, 0);
  const operator = { ...fixture.principal, role: "operator" } as const;
  await expect(retryOperation(of.core(), operator, operation.id)).rejects.toMatchObject({
    code: "forbidden",
    message: "The role operator does not grant cluster:delete.",
  });
  expect((await of.load(cluster)).phase).toBe("FAILED");
});

test("a retried deletion keeps the data for as long as was asked, from then on", async () => {
  const tools = of.tools();
  const { cluster, operation } = await of.notDeleted(tools, 7);
  const before = Date.now();
  await retryOperation(...ask(), operation.id);
  expect(await of.run(tools, operation)).toBe("succeeded");
  const deleted = await of.load(cluster);
  expect(deleted.phase).toBe("PENDING_PURGE");
  expect(deleted.purgeAt?.getTime()).toBeGreaterThanOrEqual(before + 7 * DAY_MS);
});

test("purges that cannot succeed do not stand in the way of others", async () => {
  const tools = of.tools();
  const yesterday = { purgeAt: new Date(Date.now() - DAY_MS), needsOperation: false };
  for (let count = 0; count < 10; count += 1) {
    const { cluster } = await of.deletion(tools, await of.running(tools), 1);
    refuse(tools, "destroy");
    const purge = await deleteCluster(...ask(), { clusterId: cluster.id, retainDays: 0 });
    expect(await of.run(tools, purge)).toBe("failed");
    allow(tools);
    expect(await fixture.db.clusters.changeSpec(cluster.id, yesterday)).toMatchObject({
      phase: "FAILED",
    });
  }
  const { cluster } = await of.deletion(tools, await of.running(tools), 1);
  const today = { purgeAt: new Date(), needsOperation: false };
  await fixture.db.clusters.changeSpec(cluster.id, today);
  await of.schedule(0);
  expect((await of.newest(cluster)).kind).toBe("cluster.purge");
});

test("a cluster that was deleted nobody knows how is not destroyed by a request to keep it", async () => {
  const { id } = await of.remote(true);
  await fixture.db.clusters.changePhase(id, { to: "DELETING" });
  await fixture.db.clusters.changePhase(id, { to: "PENDING_PURGE" });
  const again = deleteCluster(...ask(), { clusterId: id, retainDays: 30 });
  await expect(again).rejects.toMatchObject({ code: "cluster_not_ready" });
  expect((await of.load({ id })).phase).toBe("PENDING_PURGE");
});

test("data is purged whoever has the cluster's name by now", async () => {
  const tools = of.tools();
  const { cluster } = await of.deletion(tools, await of.running(tools), 1);
  await of.running(tools, cluster.name);
  await of.schedule(2 * DAY_MS);
  const purge = await of.newest(cluster);
  expect(purge.kind).toBe("cluster.purge");
  expect(await of.run(tools, purge)).toBe("succeeded");
  expect((await of.load(cluster)).phase).toBe("DELETED");
});
