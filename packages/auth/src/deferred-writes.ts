/** Writes in progress at most; further ones are waited for. */
const RUNNING_MAX = 100;

/** Writes that an answer does not wait for, so that its time does not tell whether there was something to write. */
export class DeferredWrites {
  readonly #running = new Set<Promise<void>>();
  readonly #onError: (error: unknown) => void;

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  /** Starts the write; resolves at once unless too many are running. Errors go to `onError`. */
  async start(write: () => Promise<void>): Promise<void> {
    const running = write()
      .catch(this.#onError)
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
    if (this.#running.size > RUNNING_MAX) await running;
  }

  /** Resolves when every write has ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#running);
  }
}
