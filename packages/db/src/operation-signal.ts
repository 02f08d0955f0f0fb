import type { OperationId } from "@millrace/domain";
import pg from "pg";
import { OPERATION_CHANNEL } from "./operation-events.ts";

const RECONNECT_DELAY_MS = 1_000;

/**
 * Wakes readers of an operation when it has a new event, over one LISTEN connection for the whole
 * process. A wake-up may be lost while the connection is: readers also look again after a time.
 */
export class OperationSignal {
  readonly #url: string;
  readonly #waiting = new Map<string, Set<() => void>>();
  #client: pg.Client | undefined;
  #connecting: Promise<void> | undefined;
  #closed = false;

  constructor(url: string) {
    this.#url = url;
  }

  /** Resolves at the next event of the operation, after `timeoutMs`, or when `signal` aborts. */
  async wait(id: OperationId, timeoutMs: number, signal?: AbortSignal): Promise<void> {
    const waiters = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, waiters);
    await new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", wake);
        waiters.delete(wake);
        if (waiters.size === 0 && this.#waiting.get(id) === waiters) this.#waiting.delete(id);
        resolve();
      };
      const timer = setTimeout(wake, timeoutMs);
      waiters.add(wake);
      signal?.addEventListener("abort", wake, { once: true });
      if (signal?.aborted || this.#closed) wake();
      else void this.#connect();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const waiters of this.#waiting.values()) for (const wake of [...waiters]) wake();
    await this.#connecting;
    await this.#client?.end().catch(() => {});
  }

  #connect(): Promise<void> {
    this.#connecting ??= this.#listen();
    return this.#connecting;
  }

  async #listen(): Promise<void> {
    const client = new pg.Client({ connectionString: this.#url });
    const drop = () => {
      if (this.#client !== client && this.#client !== undefined) return;
      this.#client = undefined;
      // Readers poll meanwhile; the next one after the delay connects again.
      setTimeout(() => {
        this.#connecting = undefined;
      }, RECONNECT_DELAY_MS).unref();
    };
    client.on("error", drop);
    client.on("notification", (message) => this.#wake(message.payload));
    try {
      await client.connect();
      await client.query(`LISTEN ${OPERATION_CHANNEL}`);
      this.#client = client;
    } catch {
      drop();
      await client.end().catch(() => {});
    }
  }

  #wake(id: string | undefined): void {
    for (const wake of [...(this.#waiting.get(id ?? "") ?? [])]) wake();
  }
}
