/** Steps of a benchmark: a load on a topic of its own, its samples and its report. */
import { setTimeout as sleep } from "node:timers/promises";
import { LeaseLost } from "@millrace/db";
import {
  assertRoomForBenchmark,
  type Benchmark,
  type BenchmarkId,
  type BenchmarkSample,
  benchmarkLoad,
  benchmarkStopReason,
  benchmarkTopic,
  desiredTuning,
  type StepName,
} from "@millrace/domain";
import { ProvisionError } from "@millrace/provisioner";
import { removeTopic } from "../benchmark-topic.ts";
import type { Step, StepContext } from "../workflow.ts";
import { loadText, reportText, sampleText } from "./benchmark-texts.ts";
import { deployment } from "./deployment.ts";

/** Times that a load is started: a worker that died during each of them may have died of it. */
const RUNS_MAX = 3;
/** While the load runs, the broker's log is looked at this often. */
const STORAGE_INTERVAL_MS = 2_000;
/** One line of the log in so many samples. */
const SAMPLES_PER_LINE = 5;
/** Should deletion fail for long, the records still go. */
const RETENTION_MS = 60 * 60_000;

const checkLoad: Step = {
  check: hasReport,
  async do(context) {
    const { cluster } = context;
    const tuning = desiredTuning(cluster, cluster.tuning.overrides);
    assertRoomForBenchmark(await storageOf(context), tuning.upload_threshold_bytes);
    return undefined;
  },
};

/** A topic that an earlier attempt wrote to is replaced: its records are no part of the next load. */
const createTopic: Step = {
  check: hasReport,
  async do(context) {
    const { tools, driver, cluster } = context;
    const benchmark = await benchmarkOf(context);
    await removeTopic(tools, driver, cluster, benchmark);
    await tools.db.benchmarks.markTopicCreated(benchmark.id);
    const name = benchmarkTopic(benchmark.id);
    const { partitions } = benchmark.request;
    const configs = { "retention.ms": String(RETENTION_MS) };
    const { bootstrapServers } = await driver.access(deployment(context));
    await tools.kafka({ bootstrapServers }, (admin) =>
      admin.createTopic({ name, partitions, configs }),
    );
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
    await removeTopic(context.tools, context.driver, context.cluster, benchmark);
    tell(context, `Deleted topic ${benchmarkTopic(benchmark.id)}.`);
    return undefined;
  },
};

/** After a failure and a cancellation. Where the broker does not answer, the worker tries again later. */
export async function cleanUpBenchmark(context: StepContext): Promise<void> {
  const { tools, driver, cluster } = context;
  await removeTopic(tools, driver, cluster, await benchmarkOf(context));
}

async function hasReport(context: StepContext): Promise<boolean> {
  return (await benchmarkOf(context)).report !== undefined;
}

async function benchmarkOf({ tools, operation }: StepContext): Promise<Benchmark> {
  const benchmark = await tools.db.benchmarks.ofOperation(operation.id);
  if (!benchmark) throw new Error("a benchmark's operation has a benchmark");
  return benchmark;
}

async function storageOf(context: StepContext) {
  return context.tools.storage(await context.driver.access(deployment(context)));
}

function assertRunsLeft({ operation }: StepContext): void {
  const runs = operation.steps.find(({ name }) => name === "run_load")?.attempt ?? 0;
  if (runs <= RUNS_MAX) return;
  const message = `The load was interrupted ${RUNS_MAX} times: the worker stopped while it ran.`;
  throw new ProvisionError("benchmark_failed", message);
}

function tell({ tools, onEvent }: StepContext, message: string): void {
  onEvent({ at: tools.clock.now().getTime(), level: "info", kind: "run", message });
}

/** Stores samples in order, in its own time: the load must not wait for the database. */
class SampleWriter {
  readonly #context: StepContext;
  readonly #id: BenchmarkId;
  #seq = 0;
  #last: Promise<void> = Promise.resolve();

  constructor(context: StepContext, id: BenchmarkId) {
    this.#context = context;
    this.#id = id;
  }

  add(sample: BenchmarkSample): void {
    const seq = this.#seq;
    this.#seq += 1;
    this.#last = this.#last.then(() => this.#write(seq, sample));
    if (this.#seq % SAMPLES_PER_LINE === 0) tell(this.#context, sampleText(sample));
  }

  /** Never rejects: a sample that is not stored is a gap in a chart. */
  async written(): Promise<void> {
    await this.#last;
  }

  async #write(seq: number, sample: BenchmarkSample): Promise<void> {
    const { tools, fence } = this.#context;
    try {
      await tools.db.transaction(async (tx) => {
        await tx.journal.hold(fence);
        await tx.benchmarks.addSample(this.#id, seq, sample);
      });
    } catch (error) {
      // Whoever has the operation now runs its load.
      if (error instanceof LeaseLost) return;
      tools.log.warn({ benchmark: this.#id, err: error }, "a sample of a benchmark is lost");
    }
  }
}

/** Looks at the broker's log while a load runs, and stops the load before other clients have to wait. */
class StorageWatch {
  readonly #abort = new AbortController();
  readonly #ending = new AbortController();
  readonly #loop: Promise<void>;

  constructor(context: StepContext) {
    this.#loop = this.#watch(context);
  }

  /** Aborts with a `ProvisionError` `benchmark_failed`. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  async end(): Promise<void> {
    this.#ending.abort();
    await this.#loop;
  }

  async #watch(context: StepContext): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      const reason = await this.#reason(context);
      if (reason !== undefined) {
        this.#abort.abort(new ProvisionError("benchmark_failed", reason));
        return;
      }
      await sleep(STORAGE_INTERVAL_MS, undefined, { signal }).catch(() => {});
    }
  }

  async #reason(context: StepContext): Promise<string | undefined> {
    try {
      return benchmarkStopReason(await storageOf(context));
    } catch (error) {
      // A broker under load may answer late; one that is down ends the load by itself.
      const { tools, operation } = context;
      tools.log.warn({ operation: operation.id, err: error }, "a broker's storage is unknown");
      return undefined;
    }
  }
}

export const BENCHMARK_STEPS = {
  check_load: checkLoad,
  create_benchmark_topic: createTopic,
  run_load: runLoad,
  delete_benchmark_topic: deleteTopic,
} satisfies Partial<Record<StepName, Step>>;
