/** Where domain and use cases take the time from; tests pass a clock that they move by hand. */
export interface Clock {
  now(): Date;
}

export const systemClock: Clock = { now: () => new Date() };
