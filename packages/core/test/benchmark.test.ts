/** Benchmarks: bounded, refused where they would do harm, and their topic is gone whatever happens. */
import { BrokerError } from "@millrace/broker-admin";
import {
  type BenchmarkRequest,
  type BenchmarkSample,
  benchmarkTopic,
  type Cluster,
  newId,
  type Operation,
  type Principal,
  TUNING_KNOBS,
  TUNING_PROPERTIES,
  tuningDefaults,
} from "@millrace/domain";
import { ProvisionError } from "@millrace/provisioner";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  cancelOperation,
  getBenchmark,
  listBenchmarks,
  pauseCluster,
  removeLeftTopics,
  retryOperation,
  runBenchmark,
  runOperation,
} from "../src/index.ts";
import {
  brokerWith,
  coreFixture,
  coreFor,
  drivers,
  FakeTopics,
  type TestTools,
  unreachable,
  withRenewals,
} from "./fixture.ts";
import { lives } from "./lives.ts";

const MIB = 1024 ** 2;
const fixture = coreFixture();
const of = lives(fixture);
let tools: TestTools;
let cluster: Cluster;
let storage: FakeTopics["storage"];
let settings: Map<string, string>;

const LATENCY = { p50: 1, p95: 2, p99: 3, p999: 4, max: 5 };
const SAMPLES = [1, 2, 3].map((second): BenchmarkSample => {
  const flow = { records: second * 10, bytes: second * 1_000, errors: 0, latencyMs: LATENCY };
  return {
    elapsedSeconds: second,
    phase: "test",
    produced: { ...flow, recordsPerSecond: 10, bytesPerSecond: 1_000 },
    consumed: undefined,
    lagRecords: undefined,
  };
});

beforeEach(async () => {
  const { organizationId } = fixture.principal;
  const { items } = await fixture.db.operations.list(organizationId, { limit: 200 });
  // One benchmark runs at a time: what the last test left would refuse this one's.
  for (const { id, done } of items) if (!done) await fixture.db.operations.requestCancel(id);
  tools = of.tools();
  cluster = await of.running(tools);
  tools.driver.effects.length = 0;
  tools.driver.samples = SAMPLES;
  storage = new FakeTopics().storage;
  const defaults = tuningDefaults({ size: "dev" });
  settings = new Map(TUNING_KNOBS.map((knob) => [TUNING_PROPERTIES[knob], String(defaults[knob])]));
});

/** Never asked. */

const caller = (): Principal => ({
  ...fixture.principal,
  userId: "usr_01JD0000000000000000000000",
});

function core() {
  return coreFor(fixture, {
    ...unreachable,
    drivers,
    brokerHttp: async () =>
      brokerWith({
        storage: async () => storage,
        settings: async () =>
          new Map([...settings].map(([name, value]) => [name, { value, dynamic: true }] as never)),
      }),
  });
}

function ask(changes: Partial<BenchmarkRequest> = {}): Promise<Operation> {
  return runBenchmark(core(), caller(), {
    ...{ clusterId: cluster.id, workload: "produce", durationSeconds: 30, partitions: 4 },
    ...{ recordSizeBytes: 1_024, bytesPerSecond: 16 * MIB, ...changes },
  });
}

async function look({ id }: Operation) {
  const benchmark = await fixture.db.benchmarks.ofOperation(id);
  if (!benchmark) throw new Error(`operation ${id} has no benchmark`);
  return getBenchmark(core(), caller(), { clusterId: cluster.id, benchmarkId: benchmark.id });
}

test("a load runs on a topic of its own, and leaves samples, a report and no topic", async () => {
  const operation = await ask();
  const before = await look(operation);
  expect(before.benchmark).toMatchObject({ phase: "PENDING", report: undefined });
  let during: string[] = [];
  tools.driver.duringLoad = async () => {
    during = [...tools.fake.names];
  };
  expect(await of.run(tools, operation)).toBe("succeeded");
  const { benchmark, samples } = await look(operation);
  expect(during).toEqual([benchmarkTopic(benchmark.id)]);
  expect(tools.fake.names.size).toBe(0);
  expect(samples).toEqual(SAMPLES.map((sample) => JSON.parse(JSON.stringify(sample))));
  expect(benchmark).toMatchObject({
    phase: "SUCCEEDED",
    report: { durationSeconds: 25, produced: { bytesPerSecond: 1_000, latencyMs: LATENCY } },
    tuning: { changes: [] },
  });
  expect(tools.driver.loads).toEqual([
    {
      ...{ workload: "produce", topic: benchmarkTopic(benchmark.id), partitions: 4 },
      ...{ recordSizeBytes: 1_024, recordsPerSecond: 16_384, warmUpSeconds: 5, testSeconds: 25 },
      bytesMax: 16_384 * 1_024 * 30,
    },
  ]);
  expect((await of.load(cluster)).phase).toBe("RUNNING");
  const log = await fixture.db.operations.events(operation.id, 0, 100);
  const lines = log.filter(({ kind }) => kind === "log").map(({ message }) => message);
  expect(lines).toEqual([
    `Created topic ${benchmarkTopic(benchmark.id)} with 4 partitions.`,
    "Producing 16 MiB/s in records of 1,024 bytes on 4 partitions for 30 s, of which 5 s warm-up; at most 480 MiB.",
    "Measured for 25 s: produced 0 MiB/s, p99 3.0 ms.",
    `Deleted topic ${benchmarkTopic(benchmark.id)}.`,
  ]);
});

describe("refused, with nothing started", () => {
  const refusals: [string, Partial<FakeTopics["storage"]>, RegExp][] = [
    ["a log that is half full", { walUsedBytes: 130 * MIB }, /write-ahead log is 51 % full/],
    ["uploads that are behind", { uploadPendingBytes: 129 * MIB }, /Uploads are behind: 129 MiB/],
    ["uploads that wait", { uploadsWaitFor: "the bucket does not answer" }, /bucket does not/],
  ];
  test.each(refusals)("%s", async (_, changes, message) => {
    storage = { ...storage, ...changes };
    await expect(ask()).rejects.toMatchObject({ code: "benchmark_refused", retryable: true });
    await expect(ask()).rejects.toThrow(message);
    expect((await of.newest(cluster)).kind).toBe("cluster.create");
    expect((await listBenchmarks(core(), caller(), { clusterId: cluster.id })).items).toEqual([]);
  });

  test("a rate above the size's bound, and more bytes than a benchmark writes", async () => {
    const tooFast = ask({ bytesPerSecond: 64 * MIB + 1 });
    await expect(tooFast).rejects.toMatchObject({
      code: "limit_exceeded",
      fields: [{ pointer: "/bytes_per_second" }],
    });
    const tooMuch = ask({ bytesPerSecond: 60 * MIB, durationSeconds: 300 });
    await expect(tooMuch).rejects.toThrow(/writes at most 17179869184/);
    const tooSmall = ask({ workload: "end_to_end", recordSizeBytes: 16 });
    await expect(tooSmall).rejects.toMatchObject({ fields: [{ pointer: "/record_size_bytes" }] });
  });

  test("a second operation, and a second benchmark on this machine", async () => {
    await ask();
    await expect(ask()).rejects.toMatchObject({ code: "cluster_busy" });
    const first = cluster;
    cluster = await of.running(of.tools());
    await expect(ask()).rejects.toThrow("Another benchmark is running on this machine.");
    cluster = first;
    const pause = pauseCluster(core(), caller(), { clusterId: cluster.id });
    await expect(pause).rejects.toMatchObject({ code: "cluster_busy" });
  });

  test("two that are asked for at once: one of them", async () => {
    const first = cluster;
    const second = await of.running(of.tools());
    const asked = [first, second].map((each) => {
      cluster = each;
      return ask();
    });
    const outcomes = (await Promise.allSettled(asked)).map(({ status }) => status);
    expect(outcomes.sort()).toEqual(["fulfilled", "rejected"]);
  });

  test("more than an organization runs in an hour", async () => {
    const { db } = fixture;
    const { organizationId } = fixture.principal;
    const other = await of.running(of.tools());
    for (let n = 0; n < 40; n += 1) {
      const kind = "cluster.benchmark" as const;
      const { id } = await db.operations.create({ organizationId, clusterId: other.id, kind });
      await db.benchmarks.create({
        ...{ id: newId("bmk"), clusterId: other.id, operationId: id, bytesPerSecond: 1 },
        request: {
          ...{ workload: "produce", durationSeconds: 10, recordSizeBytes: 1, partitions: 1 },
          bytesPerSecond: undefined,
        },
        ...{ size: "dev", by: { kind: "user", id: "usr_x", name: "ann" } },
        tuning: { version: 0, values: tuningDefaults({ size: "dev" }), changes: [] },
        createdAt: new Date(),
      });
      await db.operations.requestCancel(id);
    }
    try {
      await expect(ask()).rejects.toThrow("at most 40 benchmarks per hour");
    } finally {
      await db.benchmarks.forget(other.id);
    }
    await of.run(tools, await ask());
  });

  test("a cluster that does not run, or is on AWS", async () => {
    await of.run(tools, await pauseCluster(core(), caller(), { clusterId: cluster.id }));
    await expect(ask()).rejects.toMatchObject({
      code: "cluster_not_ready",
      remedy: "Resume the cluster first.",
    });
    cluster = await of.remote(true);
    await expect(ask()).rejects.toMatchObject({ code: "not_supported" });
  });
});

test("without a rate, one is used that the smallest size keeps up with", async () => {
  const operation = await ask({ bytesPerSecond: undefined, durationSeconds: 300 });
  const { benchmark } = await look(operation);
  expect(benchmark.bytesPerSecond).toBe(16 * MIB);
  await of.run(tools, operation);
});

test("the tuning in force is recorded, with what changed since the last report", async () => {
  const first = await ask();
  await of.run(tools, first);
  settings.set(TUNING_PROPERTIES.block_cache_bytes, String(64 * MIB));
  const failing = await ask();
  tools.driver.duringLoad = async () => {
    throw new ProvisionError("benchmark_failed", "the load failed: no broker");
  };
  await of.run(tools, failing);
  tools.driver.duringLoad = async () => {};
  const second = await ask();
  await of.run(tools, second);
  const { tuning } = (await look(second)).benchmark;
  expect(tuning.values.block_cache_bytes).toBe(64 * MIB);
  expect(tuning.changes).toEqual([{ knob: "block_cache_bytes", from: 128 * MIB, to: 64 * MIB }]);
  const third = await ask();
  expect((await look(third)).benchmark.tuning.changes).toEqual([]);
});

describe("the topic is deleted", () => {
  test("after a load that failed, whose samples stay", async () => {
    const operation = await ask();
    tools.driver.duringLoad = async () => {
      throw new ProvisionError("benchmark_failed", "the load failed: 3 records failed");
    };
    expect(await of.run(tools, operation)).toBe("failed");
    expect(tools.fake.names.size).toBe(0);
    const { benchmark, samples } = await look(operation);
    expect(benchmark).toMatchObject({
      ...{ phase: "FAILED", report: undefined },
      error: { code: "benchmark_failed", message: "the load failed: 3 records failed" },
    });
    expect(samples).toHaveLength(3);
    expect(tools.driver.effects.filter((effect) => effect.startsWith("load"))).toHaveLength(1);
    expect((await of.load(cluster)).phase).toBe("RUNNING");
    const again = retryOperation(core(), caller(), operation.id);
    await expect(again).rejects.toMatchObject({ code: "operation_not_retryable" });
  });

  test("after a cancellation, which ends the load", async () => {
    const operation = await ask();
    let ended = false;
    const viewer = cancelOperation(core(), { ...caller(), role: "viewer" }, operation.id);
    await expect(viewer).rejects.toMatchObject({ code: "forbidden" });
    tools.driver.duringLoad = async ({ signal }) => {
      await cancelOperation(core(), { ...caller(), role: "developer" }, operation.id);
      // The worker may know before the caller does.
      if (!signal.aborted)
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      ended = true;
      throw new ProvisionError("aborted", "the load was aborted");
    };
    expect(await of.run(tools, operation)).toBe("cancelled");
    expect(ended).toBe(true);
    expect(tools.fake.names.size).toBe(0);
    expect((await look(operation)).benchmark.phase).toBe("CANCELLED");
  });

  test("but a developer, who may run benchmarks, cancels no other operation", async () => {
    const pause = await pauseCluster(core(), caller(), { clusterId: cluster.id });
    const cancel = cancelOperation(core(), { ...caller(), role: "developer" }, pause.id);
    await expect(cancel).rejects.toMatchObject({ code: "forbidden" });
  });

  test("once the broker answers again, where it did not when the load failed", async () => {
    const operation = await ask();
    tools.driver.duringLoad = async () => {
      tools.fake.down = true;
      throw new ProvisionError("benchmark_failed", "the load failed: the broker died");
    };
    expect(await of.run(tools, operation)).toBe("failed");
    expect(tools.fake.names.size).toBe(1);
    await removeLeftTopics(tools);
    expect(tools.fake.names.size).toBe(1);
    tools.fake.down = false;
    await removeLeftTopics(tools);
    expect(tools.fake.names.size).toBe(0);
    await removeLeftTopics(tools);
  });

  test("at the highest rate with no upload, before the log is full", async () => {
    const operation = await ask({ bytesPerSecond: 64 * MIB });
    const { storage } = tools.fake;
    tools.driver.duringLoad = async ({ signal }) => {
      const begin = performance.now();
      const filled = () => 128 * MIB + (64 * MIB * (performance.now() - begin)) / 1_000;
      const timer = setInterval(() => {
        tools.fake.storage = { ...storage, walUsedBytes: filled() };
      }, 20);
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      clearInterval(timer);
      throw new ProvisionError("aborted", "the load was aborted");
    };
    expect(await of.run(tools, operation)).toBe("failed");
    expect(tools.fake.storage.walUsedBytes).toBeLessThan(256 * MIB);
    expect((await look(operation)).benchmark.error?.message).toMatch(/^Stopped to protect/);
  });

  test.each([
    ["uploads wait", { uploadsWaitFor: "the bucket does not answer" }, /nothing is uploaded/],
    ["the broker no longer reports how full its log is", undefined, /no longer reports/],
  ])("when %s, which stops the load", async (_, changes, message) => {
    let isSilent = false;
    const { fake } = tools;
    tools = {
      ...tools,
      storage: async () => {
        if (isSilent) throw new BrokerError("unreachable", "no answer");
        return fake.storage;
      },
    };
    const operation = await ask();
    tools.driver.duringLoad = async ({ signal }) => {
      if (changes === undefined) isSilent = true;
      else fake.storage = { ...fake.storage, ...changes };
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      throw new ProvisionError("aborted", "the load was aborted");
    };
    expect(await of.run(tools, operation)).toBe("failed");
    expect((await look(operation)).benchmark.error?.message).toMatch(message);
  });

  test("where a broker creates it after its client gave up", async () => {
    const operation = await ask();
    const { topics } = tools;
    tools = {
      ...tools,
      topics: (access) => ({
        ...topics(access),
        create: async () => {
          throw new BrokerError("refused", "timed out");
        },
      }),
    };
    expect(await of.run(tools, operation)).toBe("failed");
    const { benchmark } = await look(operation);
    tools.fake.names.add(benchmarkTopic(benchmark.id));
    await removeLeftTopics(tools);
    expect(tools.fake.names.size).toBe(0);
    expect(await fixture.db.benchmarks.isTopicDeleted(benchmark.id)).toBe(true);
  });

  test("when the log fills up, which stops the load", async () => {
    const operation = await ask();
    tools.driver.duringLoad = async ({ signal }) => {
      tools.fake.storage = { ...tools.fake.storage, walUsedBytes: 250 * MIB };
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      throw new ProvisionError("aborted", "the load was aborted");
    };
    expect(await of.run(tools, operation)).toBe("failed");
    expect((await look(operation)).benchmark.error).toMatchObject({
      code: "benchmark_failed",
      message: expect.stringMatching(/^Stopped to protect other clients: .* 98 % full/),
    });
    expect(tools.fake.names.size).toBe(0);
  });
});

describe("a worker that dies while the load runs", () => {
  let dies = Promise.withResolvers<void>();
  let dead: Promise<unknown> = Promise.resolve();

  beforeEach(() => {
    dies = Promise.withResolvers();
  });
  // What stood still must not outlive the test and its database.
  afterEach(async () => {
    dies.resolve();
    await dead;
  });

  /** Runs until the load is under way, and then never touches anything again. */
  async function die(operation: Operation): Promise<void> {
    const { signal } = new AbortController();
    await new Promise<void>((resolve) => {
      tools.driver.duringLoad = () => {
        resolve();
        return dies.promise;
      };
      const options = { workerId: "dead", signal, retryDelayMs: 1 };
      const db = withRenewals(fixture.db, () => new Promise<never>(() => {}));
      dead = runOperation({ ...tools, db }, operation.id, options).catch(() => {});
    });
  }

  test("is followed by one that ends what is left, and starts over on a fresh topic", async () => {
    const operation = await ask();
    await fixture.db.journal.claim(operation.id, "dead", 1);
    const benchmark = await fixture.db.benchmarks.ofOperation(operation.id);
    const topic = benchmarkTopic(benchmark!.id);
    // As the dead worker left it: a topic with records, a sample, and its child, which fills the log.
    tools.fake.storage = { ...tools.fake.storage, walUsedBytes: 250 * MIB };
    const { driver, fake } = tools;
    const endLoad = driver.endLoad.bind(driver);
    driver.endLoad = async (name) => {
      fake.storage = { ...fake.storage, walUsedBytes: 0 };
      await endLoad(name);
    };
    tools.fake.names.add(topic);
    await fixture.db.benchmarks.addSample(benchmark!.id, 0, SAMPLES[2]!);
    await fixture.db.journal.recordStep(
      { operationId: operation.id, attempt: 1 },
      { name: "run_load", state: "RUNNING" },
    );
    expect(await of.run(tools, operation)).toBe("succeeded");
    expect(tools.driver.endedLoads).toContain(topic);
    expect((await look(operation)).samples).toHaveLength(3);
    expect(tools.fake.names.size).toBe(0);
  });

  test("three times is not followed by a fourth load", async () => {
    const operation = await ask();
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      await fixture.db.journal.claim(operation.id, "dead", 1);
      await fixture.db.journal.recordStep(
        { operationId: operation.id, attempt },
        { name: "run_load", state: "RUNNING" },
      );
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(await of.run(tools, operation)).toBe("failed");
    expect(tools.driver.loads).toEqual([]);
    expect((await look(operation)).benchmark.error?.message).toContain("interrupted 3 times");
    expect(tools.fake.names.size).toBe(0);
  });

  test("and is cancelled without a worker leaves no topic either", async () => {
    const operation = await ask();
    await die(operation);
    expect(tools.fake.names.size).toBe(1);
    await cancelOperation(core(), caller(), operation.id);
    await fixture.db.journal.release({ operationId: operation.id, attempt: 1 });
    tools.driver.duringLoad = async () => {};
    expect(await of.run(tools, operation)).toBe("cancelled");
    expect(tools.fake.names.size).toBe(0);
  });
});

test("the last fifty of a cluster are kept, and none of a cluster that is gone", async () => {
  const { db } = fixture;
  const { organizationId } = fixture.principal;
  const request: BenchmarkRequest = {
    ...{ workload: "produce", durationSeconds: 10, recordSizeBytes: 1, partitions: 1 },
    bytesPerSecond: undefined,
  };
  for (let n = 0; n < 51; n += 1) {
    const kind = "cluster.benchmark" as const;
    const { id } = await db.operations.create({ organizationId, clusterId: cluster.id, kind });
    const benchmarkId = `bmk_01JD00000000000000000000${String(n).padStart(2, "0")}` as const;
    await db.benchmarks.create({
      ...{ id: benchmarkId, clusterId: cluster.id, operationId: id, request, bytesPerSecond: 1 },
      ...{ size: "dev", by: { kind: "user", id: "usr_x", name: "ann" } },
      tuning: { version: 0, values: tuningDefaults({ size: "dev" }), changes: [] },
      createdAt: new Date(Date.UTC(2026, 0, 1, 0, n)),
    });
    await db.benchmarks.markTopicDeleted(benchmarkId, new Date());
    await db.operations.requestCancel(id);
  }
  await of.run(tools, await ask());
  const page = await listBenchmarks(core(), caller(), { clusterId: cluster.id, pageSize: 100 });
  expect(page.items).toHaveLength(50);
  expect(page.items[0]?.phase).toBe("SUCCEEDED");
  await of.deletion(tools, cluster, 0);
  expect((await db.benchmarks.list(cluster.id, { limit: 100 })).items).toEqual([]);
});
