import type { Clock } from "@millrace/domain";

/** A clock that stands still until a test moves it. */
export class ManualClock implements Clock {
  #nowMs: number;

  constructor(start: Date = new Date("2026-01-01T00:00:00Z")) {
    this.#nowMs = start.getTime();
  }

  now(): Date {
    return new Date(this.#nowMs);
  }

  advance(ms: number): void {
    this.#nowMs += ms;
  }
}
