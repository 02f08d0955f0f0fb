/** What becomes of a change that does not come to its end. */
import { ProvisionError } from "@millrace/provisioner";
import { expect, test } from "vitest";
import {
  approveOperation,
  cancelOperation,
  getCluster,
  getOperationPlan,
  reconcileCluster,
  restoreCluster,
  retryOperation,
  updateCluster,
} from "../src/index.ts";
import { coreFixture } from "./fixture.ts";
import { DAY_MS, lives } from "./lives.ts";

const fixture = coreFixture();
const of = lives(fixture);
const ask = () => [of.core(), fixture.principal] as const;

async function waitingChange() {
  const tools = of.tools();
  const before = await of.running(tools);
  const { operation } = await updateCluster(...ask(), {
    ...{ clusterId: before.id, patch: { size: "small" }, requireApproval: true },
  });
  if (!operation) throw new Error("a size is changed by an operation");
  // Something to approve: the broker has to restart.
  tools.driver.states.set(before.id, "stopped");
  expect(await of.run(tools, operation)).toBe("waiting");
  return { tools, before, operation };
}

test("a change that was rejected is not carried out by the next operation", async () => {
  const { tools, before, operation } = await waitingChange();
  expect(await of.load(before)).toMatchObject({ size: "small", revision: before.revision + 1 });
  await cancelOperation(...ask(), operation.id);
  expect(await of.load(before)).toMatchObject({
    ...{ phase: "RUNNING", size: "dev", revision: before.revision },
  });
  let applied = "";
  const apply = tools.driver.apply.bind(tools.driver);
  tools.driver.apply = async (deployment, planId) => {
    applied = deployment.size;
    await apply(deployment, planId);
  };
  const reconcile = await reconcileCluster(...ask(), { clusterId: before.id });
  expect(await of.run(tools, reconcile)).toBe("succeeded");
  expect(applied).toBe("dev");
});

test("a rejected change that is asked for again by a retry is carried out", async () => {
  const { tools, before, operation } = await waitingChange();
  await cancelOperation(...ask(), operation.id);
  await retryOperation(...ask(), operation.id);
  expect(await of.run(tools, operation)).toBe("waiting");
  const { plan } = await getOperationPlan(...ask(), operation.id);
  const somebody = { ...fixture.principal, userId: "usr_01JD0000000000000000000000" as const };
  await approveOperation(of.core(), somebody, { operationId: operation.id, digest: plan.digest });
  expect(await of.run(tools, operation)).toBe("succeeded");
  const { size, revision, observedRevision } = await of.load(before);
  expect([size, revision]).toEqual(["small", observedRevision]);
});

test("what somebody changed while a change waited is neither taken back with it nor retried away", async () => {
  const tools = of.tools();
  const { id, revision } = await of.running(tools);
  const patch = { size: "small", labels: { team: "a", tier: "1" } } as const;
  const { operation } = await updateCluster(...ask(), {
    ...{ clusterId: id, patch, requireApproval: true },
  });
  await updateCluster(...ask(), { clusterId: id, patch: { labels: { team: "b", env: "test" } } });
  await cancelOperation(...ask(), operation!.id);
  expect(await of.load({ id })).toMatchObject({ size: "dev", revision });
  expect((await of.load({ id })).labels).toEqual({ team: "b", env: "test" });
  await retryOperation(...ask(), operation!.id);
  expect(await of.load({ id })).toMatchObject({ size: "small" });
  expect((await of.load({ id })).labels).toEqual({ team: "b", env: "test", tier: "1" });
});

test("a retry makes all of its change, although a part of it was never taken back", async () => {
  const tools = of.tools();
  const { id, name } = await of.running(tools);
  const patch = { size: "small", name: `${name}-new` } as const;
  const { operation } = await updateCluster(...ask(), {
    ...{ clusterId: id, patch, requireApproval: true },
  });
  await of.running(tools, name);
  await cancelOperation(...ask(), operation!.id);
  expect(await of.load({ id })).toMatchObject({ size: "dev", name: patch.name });
  await retryOperation(...ask(), operation!.id);
  const again = await of.load({ id });
  expect(again).toMatchObject({ size: "small", name: patch.name, phase: "UPDATING" });
  expect(again.observedRevision).toBeLessThan(again.revision);
});

test("a change that failed halfway is asked for again by the same request", async () => {
  const tools = of.tools();
  const { id } = await of.running(tools);
  const input = { clusterId: id, patch: { size: "small" } } as const;
  const { operation } = await updateCluster(...ask(), input);
  const apply = tools.driver.apply.bind(tools.driver);
  tools.driver.apply = async () => {
    throw new ProvisionError("start_failed", "it does not start");
  };
  expect(await of.run(tools, operation!)).toBe("failed");
  tools.driver.apply = apply;
  const halfway = await of.load({ id });
  expect(halfway).toMatchObject({ phase: "DEGRADED", size: "small" });
  expect(halfway.observedRevision).toBeLessThan(halfway.revision);
  // What no operation makes so is changed as ever.
  const labelled = await updateCluster(...ask(), { clusterId: id, patch: { labels: { a: "b" } } });
  expect(labelled.operation).toBeUndefined();
  const again = await updateCluster(...ask(), input);
  expect(again.operation).toMatchObject({ kind: "cluster.update" });
  // Sent once more while that runs it asks for nothing new.
  expect((await updateCluster(...ask(), input)).operation).toBeUndefined();
  expect(await of.run(tools, again.operation!)).toBe("succeeded");
  const done = await of.load({ id });
  expect(done).toMatchObject({ phase: "RUNNING", observedRevision: done.revision });
  expect((await updateCluster(...ask(), input)).operation).toBeUndefined();
});

test("a cluster that never served is not said to serve", async () => {
  const { db, principal } = fixture;
  const tools = of.tools();
  const { environmentId, organizationId } = await of.running(tools);
  const remote = await db.clusters.create({
    ...{ organizationId, environmentId, name: "never-served", region: "eu-central-1" },
    ...{ size: "dev", labels: {}, conditions: [] },
  });
  await db.clusters.recordPlacement(remote.id, { host: "h", kafkaPort: 9092, adminPort: 8082 });
  await db.clusters.changePhase(remote.id, { to: "FAILED" });
  const { operation } = await updateCluster(of.core(), principal, {
    ...{ clusterId: remote.id, patch: { labels: { a: "b" } } },
  });
  await cancelOperation(...ask(), operation!.id);
  const failed = await of.load(remote);
  expect(failed).toMatchObject({ phase: "FAILED", observedRevision: 0, labels: {} });
  expect(failed.conditions[0]?.status).toBe("False");
});

test("a restore that was given up leaves the cluster deleted, for a day at least", async () => {
  const tools = of.tools();
  const { cluster } = await of.deletion(tools, await of.running(tools), 3);
  const restoring = await restoreCluster(...ask(), { clusterId: cluster.id });
  expect((await of.load(cluster)).purgeAt).toBeUndefined();
  await cancelOperation(...ask(), restoring.id);
  expect(await of.load(cluster)).toMatchObject({
    ...{ phase: "PENDING_PURGE", purgeAt: cluster.purgeAt },
  });
  const late = { purgeAt: new Date(), needsOperation: false };
  await fixture.db.clusters.changeSpec(cluster.id, late);
  const again = await restoreCluster(...ask(), { clusterId: cluster.id });
  await cancelOperation(...ask(), again.id);
  const { purgeAt } = await of.load(cluster);
  expect(purgeAt?.getTime()).toBeGreaterThan(Date.now() + DAY_MS / 2);
});

test("whoever meets an operation that waits is told to decide on it", async () => {
  const { before, operation } = await waitingChange();
  const busy = reconcileCluster(...ask(), { clusterId: before.id });
  await expect(busy).rejects.toMatchObject({
    ...{ code: "cluster_busy", remedy: expect.stringContaining("Approve or cancel it") },
  });
  await cancelOperation(...ask(), operation.id);
  const view = await getCluster(...ask(), before.id);
  expect(view.operationId).toBe(operation.id);
});
