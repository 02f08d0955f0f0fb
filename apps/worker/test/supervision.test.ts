import { existsSync, mkdirSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { newId } from "@millrace/domain";
import { expect, test } from "vitest";
import { BUSY_MS_MAX, eventually, installation } from "./fixture.ts";

const it = installation();
const TIMEOUT_MS = 240_000;

async function runningCluster(name: string) {
  const { cluster, operation } = await it.requestCluster(name);
  await it.waitForOperation(cluster, operation.id);
  const [pid] = it.brokersOf(cluster.id);
  if (pid === undefined) throw new Error("a running cluster has a broker");
  return { cluster: await it.waitForPhase(cluster, "RUNNING"), pid };
}

test("a broker that dies is restarted, and the cluster is DEGRADED meanwhile", {
  timeout: TIMEOUT_MS,
}, async () => {
  await it.startWorker();
  const { cluster, pid } = await runningCluster("dies");
  process.kill(pid, "SIGKILL");
  const degraded = await it.waitForPhase(cluster, "DEGRADED");
  expect(degraded.conditions[0]).toMatchObject({ type: "Ready", status: "False" });
  const recovered = await it.waitForPhase(cluster, "RUNNING");
  expect(recovered.conditions[0]).toMatchObject({ type: "Ready", status: "True" });
  expect(recovered.placement).toEqual(cluster.placement);
  const after = it.brokersOf(cluster.id);
  expect(after).toHaveLength(1);
  expect(after).not.toContain(pid);
});

test("changes by hand are detected, undone, and checked again", {
  timeout: TIMEOUT_MS,
}, async () => {
  await it.startWorker();
  const { cluster } = await runningCluster("drifts");
  const file = join(it.home, "clusters", cluster.id, "server.properties");
  const made = await readFile(file, "utf8");
  await writeFile(file, made.replace(/^(offsets\.topic\.num\.partitions=).*$/m, "$17"));
  const look = await it.request(cluster, "cluster.check_drift");
  expect((await it.waitForOperation(cluster, look.id)).phase).toBe("SUCCEEDED");
  const drifted = await it.db.clusters.load(cluster.id);
  expect(drifted?.drift.status).toBe("drifted");
  const undoing = await it.request(cluster, "cluster.reconcile", "UPDATING");
  const done = await it.waitForOperation(cluster, undoing.id);
  expect([done.phase, done.error]).toEqual(["SUCCEEDED", undefined]);
  const looked = done.steps.find(({ name }) => name === "detect_drift");
  expect(looked?.state).toBe("SUCCEEDED");
  expect((await it.db.clusters.load(cluster.id))?.drift.status).toBe("in_sync");
  expect(await readFile(file, "utf8")).toBe(made);
});

test("a starting worker restarts the brokers that should run", {
  timeout: TIMEOUT_MS,
}, async () => {
  const first = await it.startWorker();
  const { cluster, pid } = await runningCluster("comes-back");
  await first.kill();
  process.kill(pid, "SIGKILL");
  await it.startWorker();
  await eventually(BUSY_MS_MAX, "the broker runs", async () =>
    it.brokersOf(cluster.id).length === 1 ? true : undefined,
  );
  await it.waitForPhase(cluster, "RUNNING");
});

test("a starting worker adopts a running broker", { timeout: TIMEOUT_MS }, async () => {
  const first = await it.startWorker();
  const { cluster, pid } = await runningCluster("adopted");
  await first.kill();
  await it.startWorker();
  await sleep(2_500);
  expect(it.brokersOf(cluster.id)).toEqual([pid]);
  expect((await it.db.clusters.load(cluster.id))?.phase).toBe("RUNNING");
});

test("SIGTERM leaves brokers running, or drains and stops them if configured", {
  timeout: TIMEOUT_MS,
}, async () => {
  const first = await it.startWorker();
  const { cluster, pid } = await runningCluster("told-to");
  await first.stop();
  expect(first.child.exitCode).toBe(0);
  expect(it.brokersOf(cluster.id)).toEqual([pid]);
  const second = await it.startWorker({ stopBrokers: true });
  await second.stop();
  expect(second.child.exitCode).toBe(0);
  expect(it.brokersOf(cluster.id)).toEqual([]);
  expect((await it.db.clusters.load(cluster.id))?.phase).toBe("RUNNING");
});

test("SIGTERM during an operation hands it back, so the next worker does not wait for the lease", {
  timeout: TIMEOUT_MS,
}, async () => {
  const first = await it.startWorker();
  const { cluster, operation } = await it.requestCluster("handed-back");
  await eventually(BUSY_MS_MAX, "the operation is under way", async () => {
    const now = await it.operation(cluster, operation.id);
    return now.steps.some((step) => step.name === "wait_until_healthy" && step.state === "RUNNING")
      ? true
      : undefined;
  });
  await first.stop();
  expect(first.child.exitCode).toBe(0);
  const handedBack = await it.operation(cluster, operation.id);
  expect(handedBack.done).toBe(false);
  expect(await it.db.fleet.journal.unclaimed(10, "local")).toContainEqual(
    expect.objectContaining({ id: operation.id }),
  );
  await it.startWorker();
  const ended = await it.waitForOperation(cluster, operation.id);
  expect(ended).toMatchObject({ phase: "SUCCEEDED", attempt: 2 });
});

test("leftovers of a deletion are removed, unknown folders are kept", {
  timeout: TIMEOUT_MS,
}, async () => {
  const first = await it.startWorker();
  const { cluster } = await runningCluster("orphan");
  const deletion = await it.requestDeletion(cluster);
  await it.waitForOperation(cluster, deletion.id);
  await first.stop();
  const orphan = join(it.home, "clusters", cluster.id);
  const stranger = join(it.home, "clusters", newId("clu"));
  mkdirSync(orphan);
  mkdirSync(stranger);
  await it.startWorker();
  await eventually(BUSY_MS_MAX, "the orphan is gone", async () =>
    existsSync(orphan) ? undefined : true,
  );
  expect(existsSync(stranger)).toBe(true);
});

test("counters are read and stored every few seconds", { timeout: TIMEOUT_MS }, async () => {
  await it.startWorker();
  const { cluster } = await runningCluster("measured");
  const range = { from: new Date(Date.now() - 60_000), to: new Date(Date.now() + 60_000) };
  const scrapes = await eventually(BUSY_MS_MAX, "three readings", async () => {
    const found = await it.db.metrics.scrapes(cluster.id, range, 1);
    return found.length >= 3 ? found : undefined;
  });
  const [first, , third] = scrapes.map((scrape) => scrape.at.getTime());
  expect((third ?? 0) - (first ?? 0)).toBeGreaterThan(3_000);
});
