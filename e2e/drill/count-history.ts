/** A count that only grows, with its past: what it was at any moment, and how fast it grew. */
export class CountHistory {
  readonly #times: number[] = [];
  readonly #totals: number[] = [];

  get total(): number {
    return this.#totals.at(-1) ?? 0;
  }

  /** When it grew last, milliseconds since the epoch. */
  get newestAt(): number {
    return this.#times.at(-1) ?? Number.NEGATIVE_INFINITY;
  }

  add(count: number): void {
    this.#totals.push(this.total + count);
    this.#times.push(Date.now());
  }

  /** The count at a moment, milliseconds since the epoch. */
  at(timeMs: number): number {
    return this.#totals[this.#entriesUntil(timeMs) - 1] ?? 0;
  }

  /** The mean growth between two moments. */
  perSecond(fromMs: number, toMs: number): number {
    return ((this.at(toMs) - this.at(fromMs)) * 1_000) / (toMs - fromMs);
  }

  /**
   * The growth at a moment as an exponentially weighted mean: what is one window old weighs 1/e of
   * what is new, and what was before `sinceMs` weighs nothing.
   */
  weightedPerSecond(atMs: number, windowMs: number, sinceMs: number): number {
    let weighted = 0;
    for (let index = this.#entriesUntil(sinceMs); index < this.#entriesUntil(atMs); index++) {
      const growth = this.#totals[index]! - (this.#totals[index - 1] ?? 0);
      weighted += growth * Math.exp((this.#times[index]! - atMs) / windowMs);
    }
    const weights = windowMs * (1 - Math.exp((sinceMs - atMs) / windowMs));
    return (weighted * 1_000) / weights;
  }

  /** How many entries there are up to a moment, that one included. */
  #entriesUntil(timeMs: number): number {
    let [low, high] = [0, this.#times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#times[middle]! <= timeMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
