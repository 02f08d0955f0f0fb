import { type Fence, LeaseLost } from "@millrace/db";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Lease } from "./lease.ts";

const FENCE: Fence = { operationId: "op_1", attempt: 1 };
const LEASE_MS = 3_000;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function leaseOf(renew: () => Promise<void>): Lease {
  return new Lease({ renew }, FENCE, LEASE_MS, performance.now());
}

test("a lease that is renewed is kept", async () => {
  const lease = leaseOf(async () => {});
  await vi.advanceTimersByTimeAsync(10 * LEASE_MS);
  expect(lease.signal.aborted).toBe(false);
  lease.end();
});

test.each([
  ["never answers", () => new Promise<void>(() => {})],
  ["fails", () => Promise.reject(new Error("the database is gone"))],
])("a database that %s keeps the lease until its time is over, and no longer", async (_, renew) => {
  const lease = leaseOf(renew);
  await vi.advanceTimersByTimeAsync(LEASE_MS - 1);
  expect(lease.signal.aborted).toBe(false);
  await vi.advanceTimersByTimeAsync(LEASE_MS / 3);
  expect(lease.signal.reason).toBeInstanceOf(LeaseLost);
});

test("a lease that another worker has is lost at once", async () => {
  const lease = leaseOf(() => Promise.reject(new LeaseLost("taken")));
  await vi.advanceTimersByTimeAsync(LEASE_MS / 3);
  expect(lease.signal.reason).toBeInstanceOf(LeaseLost);
});
