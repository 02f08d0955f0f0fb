import { afterAll, beforeAll, vi } from "vitest";

/**
 * Stops the clock, but no timer, for the tests of a file: a limit per minute is one, and a time-based code lasts,
 * however busy the machine is.
 */
export function frozenDate(): void {
  beforeAll(() => void vi.useFakeTimers({ toFake: ["Date"] }));
  afterAll(() => void vi.useRealTimers());
}
