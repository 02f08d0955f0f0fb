import { setImmediate as nextTurn } from "node:timers/promises";
import { PromqlError } from "./promql-error.ts";

/** Samples that one query may visit: Prometheus' `query.max-samples` is 50 million, in a process of its own. */
export const SAMPLES_MAX = 20_000_000;
/**
 * Values that a query reads: a broker's reading has about 80, of which its histograms are most. So many take 200 MB while the
 * query runs, and a broker's readings of 400 days have as many.
 */
export const VALUES_MAX = 5_000_000;
/** What an element of a vector costs, in samples: it is hashed, grouped and copied. */
const ELEMENT_SAMPLES = 10;
/** Other requests of the process wait so long at most. */
const TURN_MS_MAX = 20;
/** Time from the first step to the last, waiting for others included: Grafana gives up after 30 seconds. */
const EVALUATION_MS_MAX = 15_000;

/** The work that one query may cause. */
export class Budget {
  readonly #begunMs = performance.now();
  #turnMs = this.#begunMs;
  #left = SAMPLES_MAX;
  #valuesLeft = VALUES_MAX;

  /** Throws `execution`. */
  takeSamples(count: number): void {
    this.#left -= count + 1;
    if (this.#left < 0) {
      throw new PromqlError(
        "execution",
        `the query visits more than ${SAMPLES_MAX} samples: choose a larger step, a shorter range or fewer series`,
      );
    }
  }

  /** Whether so many values can still be read. */
  hasValues(count: number): boolean {
    return count <= this.#valuesLeft;
  }

  takeValues(count: number): void {
    this.#valuesLeft -= count;
  }

  takeElements(count: number): void {
    this.takeSamples(count * ELEMENT_SAMPLES);
  }

  /** Lets other requests of the process run. Throws `timeout`. */
  async pause(): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - this.#turnMs < TURN_MS_MAX) return;
    if (nowMs - this.#begunMs > EVALUATION_MS_MAX) {
      throw new PromqlError(
        "timeout",
        `the query takes longer than ${EVALUATION_MS_MAX / 1_000} s`,
      );
    }
    await nextTurn();
    this.#turnMs = performance.now();
  }
}
