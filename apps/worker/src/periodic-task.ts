import { setTimeout as sleep } from "node:timers/promises";

export interface PeriodicTaskOptions {
  /** From the start of one run to the start of the next. A slow run is followed by a pause all the same. */
  readonly intervalMs: number;
  readonly run: (signal: AbortSignal) => Promise<void>;
  /** Called for every run that fails; the next run still follows. */
  readonly onError: (error: unknown) => void;
}

/** The pause after a run that took the whole interval, as a share of it. */
const PAUSE_MIN = 0.25;

/** Repeats a task, never twice at the same time, until it is stopped. */
export class PeriodicTask {
  readonly #options: PeriodicTaskOptions;
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;

  constructor(options: PeriodicTaskOptions) {
    this.#options = options;
  }

  /** The first run starts at once. */
  start(): void {
    this.#loop ??= this.#repeat();
  }

  /** Aborts the current run and waits for its end. No other run follows. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#loop;
  }

  async #repeat(): Promise<void> {
    const { signal } = this.#stopping;
    const { intervalMs } = this.#options;
    while (!signal.aborted) {
      const begin = performance.now();
      try {
        await this.#options.run(signal);
      } catch (error) {
        if (!signal.aborted) this.#options.onError(error);
      }
      try {
        const left = intervalMs - (performance.now() - begin);
        await sleep(Math.max(left, intervalMs * PAUSE_MIN), undefined, { signal });
      } catch {
        // Aborted: the loop's condition ends it.
      }
    }
  }
}
