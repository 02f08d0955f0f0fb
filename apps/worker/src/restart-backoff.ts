/**
 * When a broker that died may be restarted. The first restart comes at once, because most deaths are
 * accidents. For a broker that keeps dying the wait grows up to a bound, so that restarts neither use up
 * the machine nor fill the log. Time is monotonic, in milliseconds, and passed in by the caller.
 */
export interface BackoffOptions {
  /** Wait before the second start in a row; doubles from there. */
  readonly firstMs: number;
  readonly maxMs: number;
  /** A broker that was ready for this long is healthy again, and its backoff is reset. */
  readonly healthyAfterMs: number;
}

/** Window of the restart count in `recentStarts` and in the cluster's condition. */
export const RESTART_WINDOW_MS = 10 * 60_000;
/** The bound of that count; at the longest wait a window has 200. */
const RECENT_STARTS_MAX = 1_000;

/**
 * The longest wait is short, because it is an outage for the cluster's clients and a start every three
 * seconds costs little.
 */
export const RESTART_BACKOFF: BackoffOptions = {
  firstMs: 250,
  maxMs: 3_000,
  healthyAfterMs: 10_000,
};

export class RestartBackoff {
  readonly #options: BackoffOptions;
  #starts = 0;
  #nextStartAt = Number.NEGATIVE_INFINITY;
  #readySince: number | undefined;
  #recent: number[] = [];

  constructor(options: BackoffOptions) {
    this.#options = options;
  }

  /** Starts in a row that have not led to a healthy broker. */
  get starts(): number {
    return this.#starts;
  }

  mayStart(now: number): boolean {
    return now >= this.#nextStartAt;
  }

  started(now: number): void {
    const { firstMs, maxMs } = this.#options;
    this.#nextStartAt = now + Math.min(maxMs, firstMs * 2 ** this.#starts);
    this.#starts += 1;
    this.#readySince = undefined;
    this.#recent = [...this.#recent.slice(1 - RECENT_STARTS_MAX), now];
  }

  /** Starts within the last `RESTART_WINDOW_MS`, whether they led to a healthy broker or not. */
  recentStarts(now: number): number {
    this.#recent = this.#recent.filter((at) => now - at < RESTART_WINDOW_MS);
    return this.#recent.length;
  }

  ready(now: number): void {
    this.#readySince ??= now;
    if (now - this.#readySince < this.#options.healthyAfterMs) return;
    this.#starts = 0;
    this.#nextStartAt = Number.NEGATIVE_INFINITY;
  }

  notReady(): void {
    this.#readySince = undefined;
  }
}
