/** Steps of a benchmark: a load on a topic of its own. */
import { setTimeout as sleep } from "node:timers/promises";
import {
  assertRoomForBenchmark,
  type Benchmark,
  benchmarkLoad,
  benchmarkTopic,
  DomainError,
  desiredTuning,
  type StepName,
} from "@millrace/domain";
import { ProvisionError } from "@millrace/provisioner";
import { removeTopic } from "../benchmark-topic.ts";
import type { Step, StepContext } from "../workflow.ts";
import { loadText, reportText, tell } from "./benchmark-texts.ts";
import { deployment } from "./deployment.ts";
import { SampleWriter } from "./sample-writer.ts";
import { StorageWatch, storageOf } from "./storage-watch.ts";

/** Times that a load is started: a worker that died during each of them may have died of it. */
const RUNS_MAX = 3;
/** Looks at the log before a load, and the time between them. */
const ROOM_LOOKS_MAX = 6;
const ROOM_INTERVAL_MS = 1_000;
/** Should deletion fail for long, the records still go. */
const RETENTION_MS = 60 * 60_000;

const checkLoad: Step = {
  check: hasReport,
  async do(context) {
    await holdFence(context);
    // An earlier attempt's load would be what makes this one harmful.
    await context.driver.endLoad(benchmarkTopic((await benchmarkOf(context)).id));
    await waitForRoom(context);
    return undefined;
  },
};

/** What an earlier load has written, or another client in a burst, is given a few seconds to be uploaded. */
async function waitForRoom(context: StepContext): Promise<void> {
  const { cluster, signal } = context;
  const tuning = desiredTuning(cluster, cluster.tuning.overrides);
  for (let look = 1; ; look += 1) {
    try {
      assertRoomForBenchmark(await storageOf(context), tuning.upload_threshold_bytes);
      return;
    } catch (error) {
      const isRefused = error instanceof DomainError && error.code === "benchmark_refused";
      if (!isRefused || look === ROOM_LOOKS_MAX) throw error;
    }
    await sleep(ROOM_INTERVAL_MS, undefined, { signal });
  }
}

/** A topic that an earlier attempt wrote to is replaced: its records are no part of the next load. */
const createTopic: Step = {
  check: hasReport,
  async do(context) {
    const { tools, driver, cluster } = context;
    const benchmark = await benchmarkOf(context);
    await holdFence(context);
    await removeTopic(tools, driver, cluster, benchmark);
    await tools.db.transaction(async (tx) => {
      await tx.journal.hold(context.fence);
      await tx.benchmarks.markTopicCreated(benchmark.id);
    });
    const name = benchmarkTopic(benchmark.id);
    const { partitions } = benchmark.request;
    const configs = { "retention.ms": String(RETENTION_MS) };
    const access = await driver.access(deployment(context));
    await tools.topics(access).create({ name, partitions, configs });
    tell(context, `Created topic ${name} with ${partitions} partitions.`);
    return undefined;
  },
};

const runLoad: Step = {
  check: hasReport,
  async do(context) {
    const { tools, cluster, fence } = context;
    const benchmark = await benchmarkOf(context);
    assertRunsLeft(context);
    const load = benchmarkLoad(benchmark);
    tell(context, loadText(load));
    await tools.db.transaction(async (tx) => {
      await tx.journal.hold(fence);
      await tx.benchmarks.forgetSamples(benchmark.id);
    });
    const samples = new SampleWriter(context, benchmark.id);
    const watch = new StorageWatch(context);
    const signal = AbortSignal.any([context.signal, watch.signal]);
    try {
      const report = await context.driver.runLoad(deployment(context), load, {
        signal,
        onSample: (sample) => samples.add(sample),
      });
      await samples.written();
      const { version: tuningVersion } =
        (await tools.db.clusters.load(cluster.id))?.tuning ?? cluster.tuning;
      await tools.db.transaction(async (tx) => {
        await tx.journal.hold(fence);
        await tx.benchmarks.saveReport(benchmark.id, { report, tuningVersion });
      });
      tell(context, reportText(report));
    } catch (error) {
      watch.signal.throwIfAborted();
      throw error;
    } finally {
      await watch.end();
      await samples.written();
    }
    return undefined;
  },
};

const deleteTopic: Step = {
  check: async (context) =>
    context.tools.db.benchmarks.isTopicDeleted((await benchmarkOf(context)).id),
  async do(context) {
    const benchmark = await benchmarkOf(context);
    await holdFence(context);
    await removeTopic(context.tools, context.driver, context.cluster, benchmark);
    tell(context, `Deleted topic ${benchmarkTopic(benchmark.id)}.`);
    return undefined;
  },
};

/** After a failure and a cancellation. Where the broker does not answer, the worker tries again later. */
export async function cleanUpBenchmark(context: StepContext): Promise<void> {
  const { tools, driver, cluster } = context;
  await holdFence(context);
  await removeTopic(tools, driver, cluster, await benchmarkOf(context));
}

/** Whoever has the operation now has its load and its topic as well. Throws `LeaseLost`. */
async function holdFence({ tools, fence }: StepContext): Promise<void> {
  await tools.db.transaction((tx) => tx.journal.hold(fence));
}

async function hasReport(context: StepContext): Promise<boolean> {
  return (await benchmarkOf(context)).report !== undefined;
}

async function benchmarkOf({ tools, operation }: StepContext): Promise<Benchmark> {
  const benchmark = await tools.db.benchmarks.ofOperation(operation.id);
  if (!benchmark) throw new Error("a benchmark's operation has a benchmark");
  return benchmark;
}

function assertRunsLeft({ operation }: StepContext): void {
  const runs = operation.steps.find(({ name }) => name === "run_load")?.attempt ?? 0;
  if (runs <= RUNS_MAX) return;
  const message = `The load was interrupted ${RUNS_MAX} times: the worker stopped while it ran.`;
  throw new ProvisionError("benchmark_failed", message);
}

export const BENCHMARK_STEPS = {
  check_load: checkLoad,
  create_benchmark_topic: createTopic,
  run_load: runLoad,
  delete_benchmark_topic: deleteTopic,
} satisfies Partial<Record<StepName, Step>>;
