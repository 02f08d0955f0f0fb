import { setTimeout as sleep } from "node:timers/promises";

export interface PeriodicTaskOptions {
  /** From the end of one run to the begin of the next. */
  readonly intervalMs: number;
  readonly run: (signal: AbortSignal) => Promise<void>;
  /** Told of every run that fails; the next one comes all the same. */
  readonly onError: (error: unknown) => void;
}

/** Runs something again and again, never twice at once, until it is stopped. */
export class PeriodicTask {
  readonly #options: PeriodicTaskOptions;
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;

  constructor(options: PeriodicTaskOptions) {
    this.#options = options;
  }

  /** The first run begins at once. */
  start(): void {
    this.#loop ??= this.#repeat();
  }

  /** Aborts the signal of the run under way and waits for its end. None follows. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#loop;
  }

  async #repeat(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await this.#options.run(signal);
      } catch (error) {
        if (!signal.aborted) this.#options.onError(error);
      }
      try {
        await sleep(this.#options.intervalMs, undefined, { signal });
      } catch {
        // Aborted: the loop's condition ends it.
      }
    }
  }
}
