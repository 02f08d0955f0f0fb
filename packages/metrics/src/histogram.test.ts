import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addCounts, quantile } from "./histogram.ts";

const BOUNDS = [1, 2, 4, 8, 16, 32];

/** Cumulative counts of these observations, +Inf last. */
function countsOf(observations: readonly number[]): number[] {
  const upTo = (bound: number) => observations.filter((value) => value <= bound).length;
  return [...BOUNDS.map(upTo), observations.length];
}

const observations = fc.array(fc.double({ min: 0.001, max: 31.9, noNaN: true }), {
  minLength: 1,
  maxLength: 200,
});
const share = fc.double({ min: 0, max: 1, noNaN: true });

describe("quantile", () => {
  test("lies in the bucket of the exact value", () => {
    fc.assert(
      fc.property(observations, share, (values, q) => {
        const sorted = values.toSorted((a, b) => a - b);
        const exact = sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN;
        const upper = BOUNDS.find((bound) => bound >= exact) ?? Number.NaN;
        const lower = BOUNDS[BOUNDS.indexOf(upper) - 1] ?? 0;
        const found = quantile(q, BOUNDS, countsOf(values)) ?? Number.NaN;
        expect(found).toBeGreaterThanOrEqual(lower);
        expect(found).toBeLessThanOrEqual(upper);
      }),
    );
  });

  test("never falls as the share rises", () => {
    fc.assert(
      fc.property(observations, share, share, (values, a, b) => {
        const counts = countsOf(values);
        const low = quantile(Math.min(a, b), BOUNDS, counts) ?? Number.NaN;
        const high = quantile(Math.max(a, b), BOUNDS, counts) ?? Number.NaN;
        expect(low).toBeLessThanOrEqual(high);
      }),
    );
  });

  test("of merged buckets is that of all observations together, not of the brokers' quantiles", () => {
    fc.assert(
      fc.property(fc.array(observations, { minLength: 1, maxLength: 4 }), share, (brokers, q) => {
        const merged = BOUNDS.map(() => 0).concat(0);
        for (const values of brokers) addCounts(merged, countsOf(values), 1);
        expect(quantile(q, BOUNDS, merged)).toBe(quantile(q, BOUNDS, countsOf(brokers.flat())));
      }),
    );
  });

  test("does not change when every count is scaled", () => {
    fc.assert(
      fc.property(observations, share, fc.integer({ min: 1, max: 64 }), (values, q, power) => {
        const scaled = BOUNDS.map(() => 0).concat(0);
        addCounts(scaled, countsOf(values), 1 / power);
        const expected = quantile(q, BOUNDS, countsOf(values)) ?? Number.NaN;
        expect(quantile(q, BOUNDS, scaled)).toBeCloseTo(expected, 6);
      }),
    );
  });

  test("of nothing is unknown", () => {
    expect(quantile(0.99, BOUNDS, countsOf([]))).toBeUndefined();
    expect(quantile(0.99, [], [])).toBeUndefined();
  });

  test("of observations beyond the last bound is the last bound", () => {
    expect(quantile(0.99, BOUNDS, countsOf([100, 100, 100]))).toBe(32);
  });

  test("interpolates within a bucket", () => {
    expect(quantile(0.5, [10, 20], [0, 100, 100])).toBe(15);
    expect(quantile(0.99, [10, 20], [100, 100, 100])).toBeCloseTo(9.9);
  });
});
