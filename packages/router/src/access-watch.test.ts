import { DomainError, type Principal } from "@millrace/domain";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { AccessWatch } from "./access-watch.ts";
import type { RequestContext } from "./context.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const PRINCIPAL = { organizationId: "org_a", role: "developer" } as unknown as Principal;

function watched(authenticateAgain: () => Promise<Principal>) {
  const left = new AbortController();
  const ctx = { signal: left.signal, authenticateAgain, cutAfter: vi.fn() };
  const watch = new AccessWatch(ctx as unknown as RequestContext, PRINCIPAL, "record:read");
  return { ctx, left, watch };
}

/** Gives an item a second. */
async function* ticks(): AsyncGenerator<number> {
  for (let tick = 0; ; tick += 1) {
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    yield tick;
  }
}

test("access that is confirmed goes on, also past a check that failed", async () => {
  const answers = [() => PRINCIPAL, () => Promise.reject(new Error("database away"))];
  let asked = 0;
  const { watch } = watched(async () => answers[asked++ % 2]!());
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked).toBe(40);
  expect(watch.signal.aborted).toBe(false);
});

test.each([
  ["fail", () => Promise.reject(new Error("database away"))],
  ["do not return", () => new Promise<Principal>(() => {})],
])("access that checks cannot confirm is lost within five seconds: they %s", async (_, again) => {
  const { watch, ctx } = watched(again);
  await vi.advanceTimersByTimeAsync(4_500);
  expect(watch.signal.aborted).toBe(true);
  expect(() => watch.assert()).toThrow("could not be verified");
  expect(ctx.cutAfter).toHaveBeenCalledOnce();
});

test("access is lost within five seconds after the start of the last check that succeeded", async () => {
  let asked = 0;
  const { watch } = watched(() => {
    asked += 1;
    const late = (done: (who: Principal) => void) => setTimeout(() => done(PRINCIPAL), 100);
    return new Promise(asked === 1 ? late : () => {});
  });
  // The check began at 1,500 ms and succeeded at 1,600 ms.
  await vi.advanceTimersByTimeAsync(5_900);
  expect(watch.signal.aborted).toBe(false);
  await vi.advanceTimersByTimeAsync(100);
  expect(watch.signal.aborted).toBe(true);
});

test("a check that takes long confirms the time when it began", async () => {
  let asked = 0;
  const { watch } = watched(() => {
    asked += 1;
    const late = (done: (who: Principal) => void) => setTimeout(() => done(PRINCIPAL), 2_900);
    return new Promise(asked === 1 ? late : () => {});
  });
  await vi.advanceTimersByTimeAsync(1_500 + 5_000);
  expect(watch.signal.aborted).toBe(true);
});

test("after a standstill of the process a check decides", async () => {
  vi.useRealTimers();
  const standstill = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5_000);
  const confirmed = watched(async () => PRINCIPAL);
  const hanging = watched(() => new Promise(() => {}));
  standstill();
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  expect(confirmed.watch.signal.aborted).toBe(false);
  expect(hanging.watch.signal.aborted).toBe(true);
  confirmed.watch.stop();
});

test("a stream fails with the reason, even where its items end with the signal", async () => {
  const revoked = new DomainError("unauthenticated", "revoked");
  const { watch } = watched(() => Promise.reject(revoked));
  async function* items() {
    yield 1;
    await new Promise((resolve) => watch.signal.addEventListener("abort", resolve));
  }
  const guarded = watch.guard(items(), (reason) => new Error("failed", { cause: reason }));
  expect(await guarded.next()).toEqual({ done: false, value: 1 });
  const next = expect(guarded.next()).rejects.toMatchObject({ cause: revoked });
  await vi.advanceTimersByTimeAsync(1_500);
  await next;
});

test("nothing is checked after the end of a stream, or after its caller has left", async () => {
  const again = vi.fn(async () => PRINCIPAL);
  const { watch } = watched(again);
  const guarded = watch.guard(ticks(), () => new Error());
  const first = guarded.next();
  await vi.advanceTimersByTimeAsync(1_000);
  await first;
  await guarded.return?.();
  watched(again).left.abort();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(again).not.toHaveBeenCalled();
});
