import { LeaseLost } from "@millrace/db";
import type { BenchmarkId, BenchmarkSample } from "@millrace/domain";
import type { StepContext } from "../workflow.ts";
import { sampleText, tell } from "./benchmark-texts.ts";

/** One line of the log in so many samples. */
const SAMPLES_PER_LINE = 5;

/** Stores samples in order, in its own time: the load must not wait for the database. */
export class SampleWriter {
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
