/** A worker that is killed while a benchmark's load runs leaves a child and a topic; the next one leaves neither. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { benchmarkTopic, type Cluster, newId, tuningDefaults } from "@millrace/domain";
import { systemProcessTable } from "@millrace/provisioner";
import { expect, test } from "vitest";
import { BUSY_MS_MAX, eventually, installation } from "./fixture.ts";

const it = installation();
const table = systemProcessTable();
const TIMEOUT_MS = 240_000;

/** A cluster that runs, made by the worker that is there. */
async function runningCluster(name: string): Promise<Cluster> {
  const { cluster, operation } = await it.requestCluster(name);
  await it.waitForOperation(cluster, operation.id);
  return await it.waitForPhase(cluster, "RUNNING");
}

/** As the use case does. */
async function requestBenchmark({ organizationId, id: clusterId, size }: Cluster) {
  const id = newId("bmk");
  const operation = await it.db.transaction(async (tx) => {
    const kind = "cluster.benchmark" as const;
    const asked = await tx.operations.create({ organizationId, clusterId, kind });
    await tx.benchmarks.create({
      ...{ id, clusterId, operationId: asked.id, size, bytesPerSecond: 1_048_576 },
      request: {
        ...{ workload: "produce", durationSeconds: 10, recordSizeBytes: 1_024, partitions: 1 },
        bytesPerSecond: undefined,
      },
      by: { kind: "user", id: "usr_x", name: "ann" },
      tuning: { version: 0, values: tuningDefaults({ size }), changes: [] },
      createdAt: new Date(),
    });
    await tx.deliver(asked.id);
    return asked;
  });
  return { operation, id, topic: benchmarkTopic(id) };
}

const loadsOn = (topic: string) => table.findByArgument(topic);
const topics = () => readdirSync(join(it.home, "topics"));

test("a benchmark starts over after its worker was killed, and leaves no load and no topic", {
  timeout: TIMEOUT_MS,
}, async () => {
  const first = await it.startWorker({ perf: "endless" });
  const cluster = await runningCluster("benchmarked");
  const { operation, id, topic } = await requestBenchmark(cluster);
  await eventually(BUSY_MS_MAX, "the load runs", async () => {
    const samples = await it.db.benchmarks.samples(id);
    return samples.length > 0 ? samples : undefined;
  });
  expect(topics()).toEqual([topic]);
  const [left] = loadsOn(topic);
  await first.kill();
  expect(loadsOn(topic)).toEqual([left]);

  await it.startWorker();
  const ended = await it.waitForOperation(cluster, operation.id);
  expect(ended).toMatchObject({ phase: "SUCCEEDED", attempt: 2, error: undefined });
  expect(loadsOn(topic)).toEqual([]);
  expect(topics()).toEqual([]);
  expect((await it.db.benchmarks.samples(id)).length).toBe(3);
  expect((await it.db.benchmarks.ofOperation(operation.id))?.report).toBeDefined();
});

test("cancelled while no worker lives, it leaves neither once one is there", {
  timeout: TIMEOUT_MS,
}, async () => {
  const first = await it.startWorker({ perf: "endless" });
  const cluster = await runningCluster("cancelled");
  const { operation, topic } = await requestBenchmark(cluster);
  await eventually(BUSY_MS_MAX, "the load runs", async () => loadsOn(topic)[0]);
  await first.kill();
  await it.db.transaction((tx) => tx.operations.requestCancel(operation.id));

  await it.startWorker();
  const ended = await it.waitForOperation(cluster, operation.id);
  expect(ended.phase).toBe("CANCELLED");
  await eventually(BUSY_MS_MAX, "neither load nor topic is left", async () =>
    loadsOn(topic).length + topics().length === 0 ? true : undefined,
  );
});
