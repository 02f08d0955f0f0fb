/** The worker is killed at every step and at random instants; the next one always completes the operation. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { installation } from "./fixture.ts";

const it = installation();
const TIMEOUT_MS = 240_000;

/** Each effect of a creation in its order, before and after: all the states a crash can leave. */
const CREATION = ["allocate", "prepare", "ensureRunning", "waitReady", "smokeCheck"];
const DELETION = ["stop", "destroy"];
const aroundEach = (effects: readonly string[]) =>
  effects.flatMap((effect) => [`${effect}:before`, `${effect}:after`]);

test("a creation and a deletion are resumed from a crash at every effect", {
  timeout: 300_000,
}, async () => {
  const { cluster, operation } = await it.requestCluster("crash-at-every-effect");
  for (const point of aroundEach(CREATION)) {
    // A broker that is ready already would be adopted, and its start and the wait left out.
    if (/^(ensureRunning|waitReady)/.test(point)) it.killBrokers(cluster.id);
    await it.crashWorker(point);
    expect((await it.operation(cluster, operation.id)).done).toBe(false);
    expect(it.brokersOf(cluster.id).length).toBeLessThanOrEqual(1);
  }
  const last = await it.startWorker();
  const created = await it.waitForOperation(cluster, operation.id);
  expect(created).toMatchObject({ phase: "SUCCEEDED", error: undefined });
  const running = await it.waitForPhase(cluster, "RUNNING");
  expect(running.placement).toBeDefined();
  expect(it.brokersOf(cluster.id)).toHaveLength(1);
  await last.kill();

  const deletion = await it.requestDeletion(running);
  for (const point of aroundEach(DELETION)) {
    await it.crashWorker(point);
    expect((await it.operation(cluster, deletion.id)).done).toBe(false);
  }
  await it.startWorker();
  expect((await it.waitForOperation(cluster, deletion.id)).phase).toBe("SUCCEEDED");
  expect(it.brokersOf(cluster.id)).toEqual([]);
  expect(existsSync(join(it.home, "clusters", cluster.id))).toBe(false);
  expect((await it.db.clusters.load(cluster.id))?.placement).toBeUndefined();
});

describe("killed repeatedly at random instants", () => {
  test("a creation and a deletion complete", { timeout: 300_000 }, async () => {
    const { cluster, operation } = await it.requestCluster("kill-at-random");
    let kills = 0;
    for (; kills < 6 && !(await it.operation(cluster, operation.id)).done; kills += 1) {
      const worker = await it.startWorker({ waitForStart: false });
      await sleep(400 + Math.random() * 2_200);
      await worker.kill();
      expect(it.brokersOf(cluster.id).length).toBeLessThanOrEqual(1);
    }
    const last = await it.startWorker();
    const created = await it.waitForOperation(cluster, operation.id);
    expect(created.phase).toBe("SUCCEEDED");
    const running = await it.waitForPhase(cluster, "RUNNING");
    expect(it.brokersOf(cluster.id)).toHaveLength(1);
    await last.kill();

    const deletion = await it.requestDeletion(running);
    for (let round = 0; round < 2; round += 1) {
      const worker = await it.startWorker({ waitForStart: false });
      await sleep(300 + Math.random() * 1_500);
      await worker.kill();
    }
    await it.startWorker();
    const deleted = await it.waitForOperation(cluster, deletion.id);
    expect(deleted.phase).toBe("SUCCEEDED");
    expect(it.brokersOf(cluster.id)).toEqual([]);
    expect(existsSync(join(it.home, "clusters", cluster.id))).toBe(false);
    expect((await it.db.clusters.load(cluster.id))?.placement).toBeUndefined();
  });
});

describe("two workers", () => {
  test("never run the same operation", { timeout: TIMEOUT_MS }, async () => {
    await Promise.all([it.startWorker(), it.startWorker()]);
    const requests = await Promise.all(
      ["a", "b", "c"].map((name) => it.requestCluster(`two-workers-${name}`)),
    );
    for (const { cluster, operation } of requests) {
      const ended = await it.waitForOperation(cluster, operation.id);
      // Every step was started once, by the only claim.
      expect(ended).toMatchObject({ phase: "SUCCEEDED", attempt: 1 });
      expect(ended.steps.map((step) => step.attempt)).toEqual(ended.steps.map(() => 1));
      expect(it.brokersOf(cluster.id)).toHaveLength(1);
    }
    const ports = requests.map(
      async ({ cluster }) => (await it.db.clusters.load(cluster.id))?.placement,
    );
    const kafkaPorts = (await Promise.all(ports)).map((placement) => placement?.kafkaPort);
    expect(new Set(kafkaPorts).size).toBe(3);
  });
});
