/** Drift checks, which come by themselves, and what they must not stand in the way of. */
import { setTimeout as delay } from "node:timers/promises";
import { type ClusterDriver, changePlan, ProvisionError } from "@millrace/provisioner";
import { runSql } from "@millrace/testkit";
import { expect, test } from "vitest";
import {
  acceptDrift,
  cancelOperation,
  checkDrift,
  deleteCluster,
  getCluster,
  getDrift,
  pauseCluster,
  reconcileCluster,
  retryOperation,
  runOperation,
  scheduleOperations,
  updateCluster,
} from "../src/index.ts";
import { coreFixture } from "./fixture.ts";
import { DAY_MS, lives } from "./lives.ts";

const fixture = coreFixture();
const of = lives(fixture);
const ask = () => [of.core(), fixture.principal] as const;
const LOOK_MS = 3_600_000;

function schedule() {
  const { core } = of;
  return scheduleOperations(
    { db: fixture.db.worker, clock: core().clock },
    { driftIntervalMs: LOOK_MS },
  );
}

/** As if the time between two drift checks had passed since anything happened to the clusters. */
async function lookTimePasses(...clusters: readonly { readonly id: string }[]): Promise<void> {
  const ids = clusters.map(({ id }) => `'${id}'`).join();
  const before = `now() - interval '${2 * LOOK_MS} milliseconds'`;
  await runSql(
    fixture.ownerUrl,
    `UPDATE cluster SET updated_at = ${before} WHERE id IN (${ids});
     UPDATE operation SET created_at = ${before} WHERE cluster_id IN (${ids})`,
  );
}

test("a drift check that failed is not begun again at once", async () => {
  const cluster = await of.remote(true);
  await lookTimePasses(cluster);
  await schedule();
  const check = await of.newest(cluster);
  expect(check.kind).toBe("cluster.check_drift");
  await cancelOperation(...ask(), check.id);
  await schedule();
  expect((await of.newest(cluster)).id).toBe(check.id);
  await lookTimePasses(cluster);
  await schedule();
  const next = await of.newest(cluster);
  expect(next.id).not.toBe(check.id);
  await cancelOperation(...ask(), next.id);
  await fixture.db.clusters.changePhase(cluster.id, { to: "DELETING" });
});

test("no more than two drift checks are under way, however many are due", async () => {
  const clusters = [await of.remote(true), await of.remote(true), await of.remote(true)];
  await lookTimePasses(...clusters);
  await schedule();
  await schedule();
  const looks = (await Promise.all(clusters.map(of.operations))).flat();
  expect(looks.map(({ kind }) => kind)).toEqual(["cluster.check_drift", "cluster.check_drift"]);
  for (const { id } of looks) await cancelOperation(...ask(), id);
  for (const { id } of clusters) await fixture.db.clusters.changePhase(id, { to: "DELETING" });
});

test("what a tenant asks for is not refused for a drift check, begun or not", async () => {
  const tools = of.tools();
  const { id } = await of.running(tools);
  const waiting = await checkDrift(...ask(), { clusterId: id });
  const pause = await pauseCluster(...ask(), { clusterId: id });
  expect(pause.kind).toBe("cluster.pause");
  await cancelOperation(...ask(), pause.id);
  const [, first] = await of.operations({ id });
  expect(first).toMatchObject({ id: waiting.id, phase: "CANCELLED" });

  const atWork = await checkDrift(...ask(), { clusterId: id });
  const driver: ClusterDriver = tools.driver;
  driver.drift = async (_deployment, options) => {
    await new Promise((resolve) => options?.signal?.addEventListener("abort", resolve));
    throw new ProvisionError("aborted", "the look was aborted");
  };
  const running = of.run(tools, atWork);
  while ((await of.newest({ id })).phase !== "RUNNING") await delay(20);
  const { operation } = await updateCluster(...ask(), { clusterId: id, patch: { size: "small" } });
  expect(operation?.kind).toBe("cluster.update");
  expect(await running).toBe("cancelled");
});

test("a drift check is nobody's last operation: what failed before it is retried", async () => {
  const tools = of.tools();
  const { id } = await of.running(tools);
  const { operation } = await updateCluster(...ask(), { clusterId: id, patch: { size: "small" } });
  await cancelOperation(...ask(), operation!.id);
  const check = await checkDrift(...ask(), { clusterId: id });
  expect(await of.run(tools, check)).toBe("succeeded");
  expect((await getCluster(...ask(), id)).operationId).toBe(operation!.id);
  expect((await retryOperation(...ask(), operation!.id)).phase).toBe("PENDING");
});

test("a drift check is not retried: a new one is asked for", async () => {
  const tools = of.tools();
  const { id } = await of.running(tools);
  const check = await checkDrift(...ask(), { clusterId: id });
  await cancelOperation(...ask(), check.id);
  await expect(retryOperation(...ask(), check.id)).rejects.toMatchObject({
    ...{ code: "operation_not_retryable", remedy: expect.stringContaining("new drift check") },
  });
});

test("a request that ends a drift check does not wait for what the look holds with the cluster in hand", async () => {
  const { db, principal } = fixture;
  const { id } = await of.running(of.tools());
  const check = await checkDrift(...ask(), { clusterId: id });
  await db.transaction((tx) => tx.journal.claim(check.id, "w", 60_000));
  const fence = { operationId: check.id, attempt: 1 };
  let pause: ReturnType<typeof pauseCluster> | undefined;
  // As a drift check records what it has found: its own row first, then the cluster's.
  await db.transaction(async (tx) => {
    await tx.journal.hold(fence);
    pause = pauseCluster(...ask(), { clusterId: id });
    pause.catch(() => {});
    await delay(500);
    await tx.clusters.lock(principal.organizationId, id);
    await tx.journal.complete(fence, { phase: "SUCCEEDED" });
  });
  expect((await pause)?.kind).toBe("cluster.pause");
});

test("whether what was found different is gone is looked at, not assumed", async () => {
  const tools = of.tools();
  const { id } = await of.running(tools);
  const attributes = [{ name: "size", before: "0", after: "1" }];
  const change = { address: "volume", type: "volume", action: "update", attributes } as const;
  tools.driver.drift = async () => changePlan("d", [change]);
  expect(await of.run(tools, await checkDrift(...ask(), { clusterId: id }))).toBe("succeeded");
  const drifted = await of.load({ id });
  expect(drifted.drift.status).toBe("drifted");
  await acceptDrift(...ask(), { clusterId: id, digest: drifted.drift.digest ?? "" });

  const inVain = await reconcileCluster(...ask(), { clusterId: id });
  expect(await of.run(tools, inVain)).toBe("succeeded");
  const still = await of.load({ id });
  expect(still).toMatchObject({
    phase: "RUNNING",
    drift: { status: "drifted", digest: drifted.drift.digest, operationId: inVain.id },
  });
  const { plan } = await getDrift(...ask(), id);
  expect(plan?.changes.map(({ address }) => address)).toEqual(["volume"]);
  const log = await fixture.db.operations.events(inVain.id, 0, 100);
  const told = log.filter(({ level }) => level === "warning");
  expect(told).toMatchObject([{ step: "detect_drift", address: "volume" }]);

  tools.driver.drift = async () => changePlan("d", []);
  const reconcile = await reconcileCluster(...ask(), { clusterId: id });
  expect(await of.run(tools, reconcile)).toBe("succeeded");
  expect((await of.load({ id })).drift).toMatchObject({ status: "in_sync", digest: undefined });
});

test("of a cluster that drifted nobody knows after a change, and it is looked at soon", async () => {
  const tools = of.toolsEverywhere();
  const { id } = await of.remote(true);
  const { operation: early } = await updateCluster(...ask(), {
    clusterId: id,
    patch: { size: "small" },
  });
  expect(await of.run(tools, early!)).toBe("succeeded");
  await of.schedule(60_000);
  expect((await of.newest({ id })).id).toBe(early!.id);

  const drift = { checkedAt: new Date(), digest: "d", operationId: undefined };
  await fixture.db.clusters.recordDrift(id, { ...drift, status: "accepted" });
  const { operation } = await updateCluster(...ask(), {
    clusterId: id,
    patch: { size: "medium" },
  });
  expect(await of.run(tools, operation!)).toBe("succeeded");
  expect((await of.load({ id })).drift).toMatchObject({ status: "unknown", digest: undefined });
  await of.schedule(60_000);
  const check = await of.newest({ id });
  expect(check.kind).toBe("cluster.check_drift");
  // One that failed is not begun again at once, as any other.
  await cancelOperation(...ask(), check.id);
  await of.schedule(60_000);
  expect((await of.newest({ id })).id).toBe(check.id);
});

test("so is one on this machine, where nobody looks otherwise", async () => {
  const tools = of.tools();
  const { id } = await of.running(tools);
  const drift = { checkedAt: new Date(), digest: "d", operationId: undefined };
  await fixture.db.clusters.recordDrift(id, { ...drift, status: "drifted" });
  await of.schedule(3 * DAY_MS);
  expect((await of.newest({ id })).kind).toBe("cluster.create");
  const { operation } = await updateCluster(...ask(), { clusterId: id, patch: { size: "small" } });
  expect(await of.run(tools, operation!)).toBe("succeeded");
  expect((await of.load({ id })).drift.status).toBe("unknown");
  await of.schedule(60_000);
  const check = await of.newest({ id });
  expect(check).toMatchObject({ kind: "cluster.check_drift", provider: "local" });
  expect(await of.run(tools, check)).toBe("succeeded");
  expect((await of.load({ id })).drift.status).toBe("in_sync");
  // That is known now, and stays so.
  await of.schedule(3 * DAY_MS);
  expect((await of.newest({ id })).id).toBe(check.id);
});

test("a drift check that began before its drift was accepted leaves it accepted", async () => {
  const tools = of.tools();
  const { id } = await of.running(tools);
  const found = changePlan("d", [
    { address: "volume", type: "volume", action: "update", attributes: [] },
  ]);
  tools.driver.drift = async () => found;
  await of.run(tools, await checkDrift(...ask(), { clusterId: id }));
  const second = await checkDrift(...ask(), { clusterId: id });
  tools.driver.drift = async () => {
    await acceptDrift(...ask(), { clusterId: id, digest: found.digest });
    return found;
  };
  await of.run(tools, second);
  expect((await of.load({ id })).drift.status).toBe("accepted");
});

test("old drift checks are forgotten, but for the one that shows the drift there is", async () => {
  const tools = of.tools();
  const { id } = await of.running(tools);
  const looks = [];
  for (const found of [1, 2]) {
    const check = await checkDrift(...ask(), { clusterId: id });
    expect([found, await of.run(tools, check)]).toEqual([found, "succeeded"]);
    looks.push(check.id);
  }
  const kinds = async () => (await of.operations({ id })).map(({ kind }) => kind);
  await of.schedule(29 * DAY_MS);
  expect(await kinds()).toEqual(["cluster.check_drift", "cluster.check_drift", "cluster.create"]);
  await of.schedule(31 * DAY_MS);
  expect(await kinds()).toEqual(["cluster.check_drift", "cluster.create"]);
  expect((await of.newest({ id })).id).toBe(looks[1]);
});

test("a cluster of which nothing was made is deleted without a plan", async () => {
  const cluster = await of.remote(false);
  const tools = of.tools();
  const drivers = { of: () => tools.driver } as unknown as typeof tools.drivers;
  const deletion = await deleteCluster(...ask(), { clusterId: cluster.id });
  const { signal } = new AbortController();
  const result = await runOperation({ ...tools, drivers }, deletion.id, {
    ...{ workerId: "w", signal, retryDelayMs: 1 },
  });
  expect(result).toBe("succeeded");
  expect((await of.load(cluster)).phase).toBe("DELETED");
  expect(tools.driver.effects).toEqual([]);
});
