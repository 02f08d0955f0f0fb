/** Recovering a broker that lost its metadata: nothing happens before the loss is approved. */
import type { Operation } from "@millrace/domain";
import { expect, test } from "vitest";
import {
  approveOperation,
  cancelOperation,
  getOperationPlan,
  pauseCluster,
  previewRecover,
  recoverCluster,
  reportDegraded,
  retryOperation,
} from "../src/index.ts";
import { coreFixture } from "./fixture.ts";
import { allow, lives, refuse } from "./lives.ts";

const fixture = coreFixture();
const of = lives(fixture);
const ask = () =>
  [of.core(), { ...fixture.principal, userId: "usr_01JD0000000000000000000000" as const }] as const;

const LOSS = {
  ...{ topic: "orders", partition: 0, from_offset: "10", to_offset: "12" },
  acknowledged_by: "2026-11-22T10:00:05Z",
};

/** A cluster whose broker has stopped and refuses to start. */
async function lost() {
  const tools = of.tools();
  const cluster = await of.running(tools);
  tools.driver.states.set(cluster.id, "stopped");
  tools.driver.effects.length = 0;
  const message = "The broker has stopped.";
  await reportDegraded(tools, await of.load(cluster), { reason: "BrokerDown", message });
  return { tools, cluster };
}

async function approve({ id }: Operation) {
  const { plan } = await getOperationPlan(...ask(), id);
  await approveOperation(...ask(), { operationId: id, digest: plan.digest });
}

test("the loss is shown, and only its approval recovers and starts the broker", async () => {
  const { tools, cluster } = await lost();
  tools.driver.recovery.missing = [LOSS];
  const operation = await recoverCluster(...ask(), { clusterId: cluster.id });
  expect((await of.load(cluster)).phase).toBe("UPDATING");
  expect(await of.run(tools, operation)).toBe("waiting");
  expect(tools.driver.effects).toEqual([]);
  const { plan } = await getOperationPlan(...ask(), operation.id);
  expect(plan.recovery?.missing).toEqual([
    {
      topic: "orders",
      partition: 0,
      fromOffset: "10",
      toOffset: "12",
      acknowledgedBy: LOSS.acknowledged_by,
    },
  ]);
  await approve(operation);
  expect(await of.run(tools, operation)).toBe("succeeded");
  const verbs = tools.driver.effects.map((effect) => effect.split(" ")[0]);
  expect(verbs).toEqual(["recover", "start", "wait"]);
  expect((await of.load(cluster)).phase).toBe("RUNNING");
  const log = await fixture.db.operations.events(operation.id, 0, 100);
  expect(log.filter(({ kind }) => kind === "log")).toMatchObject([
    { level: "warning", step: "recover", message: expect.stringContaining("partitions: 1") },
  ]);
});

test("a loss that grew after its approval is asked about again", async () => {
  const { tools, cluster } = await lost();
  const operation = await recoverCluster(...ask(), { clusterId: cluster.id });
  await of.run(tools, operation);
  await approve(operation);
  tools.driver.recovery.missing = [LOSS];
  expect(await of.run(tools, operation)).toBe("waiting");
  expect(tools.driver.effects).toEqual([]);
  const log = await fixture.db.operations.events(operation.id, 0, 100);
  expect(log.filter(({ kind }) => kind === "log")).toMatchObject([
    { level: "warning", step: "recover", message: expect.stringMatching(/^Planning again: ./) },
  ]);
  await approve(operation);
  expect(await of.run(tools, operation)).toBe("succeeded");
});

test("cancelled before its approval, it leaves the cluster as it was", async () => {
  const { tools, cluster } = await lost();
  const operation = await recoverCluster(...ask(), { clusterId: cluster.id });
  await of.run(tools, operation);
  await cancelOperation(...ask(), operation.id);
  expect((await of.load(cluster)).phase).toBe("DEGRADED");
  expect(tools.driver.effects).toEqual([]);
});

test("a broker that does not start after the recovery can be retried, and is not recovered twice", async () => {
  const { tools, cluster } = await lost();
  const operation = await recoverCluster(...ask(), { clusterId: cluster.id });
  await of.run(tools, operation);
  await approve(operation);
  refuse(tools, "start");
  expect(await of.run(tools, operation)).toBe("failed");
  expect((await of.load(cluster)).phase).toBe("DEGRADED");
  allow(tools);
  await retryOperation(...ask(), operation.id);
  expect(await of.run(tools, operation)).toBe("succeeded");
  expect(tools.driver.effects.filter((effect) => effect.startsWith("recover"))).toHaveLength(1);
});

test("a paused cluster is recovered, and stays paused until it is resumed", async () => {
  const { tools, cluster } = await lost();
  expect(await of.run(tools, await pauseCluster(...ask(), { clusterId: cluster.id }))).toBe(
    "succeeded",
  );
  tools.driver.effects.length = 0;
  const operation = await recoverCluster(...ask(), { clusterId: cluster.id });
  await of.run(tools, operation);
  await approve(operation);
  expect(await of.run(tools, operation)).toBe("succeeded");
  expect(tools.driver.effects.map((effect) => effect.split(" ")[0])).toEqual(["recover"]);
  expect((await of.load(cluster)).phase).toBe("PAUSED");
});

test("a paused cluster whose recovery is cancelled says that it is paused", async () => {
  const { tools, cluster } = await lost();
  await of.run(tools, await pauseCluster(...ask(), { clusterId: cluster.id }));
  const { conditions: paused } = await of.load(cluster);
  const operation = await recoverCluster(...ask(), { clusterId: cluster.id });
  expect(await of.run(tools, operation)).toBe("waiting");
  await cancelOperation(...ask(), operation.id);
  const { phase, conditions } = await of.load(cluster);
  const { reason, message } = paused[0]!;
  expect(reason).toBe("Paused");
  expect({ phase, conditions }).toMatchObject({
    phase: "PAUSED",
    conditions: [{ type: "Ready", status: "False", reason, message }],
  });
});

test("a cluster that serves is not recovered", async () => {
  const cluster = await of.running(of.tools());
  const refused = { code: "cluster_serving", retryable: false };
  await expect(recoverCluster(...ask(), { clusterId: cluster.id })).rejects.toMatchObject(refused);
  const { signal } = new AbortController();
  const preview = previewRecover(...ask(), { clusterId: cluster.id }, signal);
  await expect(preview).rejects.toMatchObject(refused);
});

test("a preview shows the loss and begins nothing", async () => {
  const { cluster } = await lost();
  const { signal } = new AbortController();
  const preview = await previewRecover(...ask(), { clusterId: cluster.id }, signal);
  expect(preview.plan.recovery).toMatchObject({ source: "bucket", missing: [] });
  expect((await of.load(cluster)).phase).toBe("DEGRADED");
  expect((await of.newest(cluster)).kind).toBe("cluster.create");
});
