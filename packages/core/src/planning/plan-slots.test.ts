import { ProvisionError } from "@millrace/provisioner";
import { expect, test } from "vitest";
import { PlanSlots } from "./plan-slots.ts";

/** Callers whose plans end when they are told to. */
class Callers {
  readonly slots = new PlanSlots();
  readonly begun: string[] = [];
  readonly #ends: (() => void)[] = [];

  ask(owner: string, signal = new AbortController().signal): Promise<void> {
    return this.slots.run({ owner, signal }, async () => {
      this.begun.push(owner);
      await new Promise<void>((resolve) => this.#ends.push(resolve));
    });
  }

  /** Ends the plan that runs longest. */
  async end(): Promise<void> {
    this.#ends.shift()?.();
    await new Promise(setImmediate);
  }

  get running(): number {
    return this.#ends.length;
  }
}

test("one organization makes one plan at a time, four wait, the next is told to come back", async () => {
  const callers = new Callers();
  const asked = Array.from({ length: 5 }, () => callers.ask("a"));
  await expect(callers.ask("a")).rejects.toMatchObject({
    code: "planning_busy",
    retryAfterSeconds: 10,
  });
  expect(callers.begun).toEqual(["a"]);
  for (let count = 0; count < 5; count += 1) await callers.end();
  await Promise.all(asked);
  expect(callers.begun).toHaveLength(5);
});

test("whoever asks for many plans does not keep others from theirs", async () => {
  const callers = new Callers();
  const asked = [...Array.from({ length: 5 }, () => callers.ask("a")), callers.ask("b")];
  await new Promise(setImmediate);
  expect(callers.begun).toEqual(["a", "b"]);
  asked.push(callers.ask("b"), callers.ask("c"));
  for (let count = 0; count < 8; count += 1) {
    expect(callers.running).toBeLessThanOrEqual(2);
    await callers.end();
  }
  await Promise.all(asked);
  expect(callers.begun.slice(0, 6)).toEqual(["a", "b", "a", "b", "c", "a"]);
});

test("there is an end to who waits, over all organizations", async () => {
  const callers = new Callers();
  const asked = Array.from({ length: 34 }, (_, index) => callers.ask(`o${index}`));
  await expect(callers.ask("late")).rejects.toMatchObject({ code: "planning_busy" });
  for (let count = 0; count < 34; count += 1) await callers.end();
  await Promise.all(asked);
});

test("who has gone leaves the queue, or the plan that is being made", async () => {
  const callers = new Callers();
  const first = callers.ask("a");
  const gone = new AbortController();
  const waiting = Array.from({ length: 4 }, () => callers.ask("a", gone.signal));
  gone.abort();
  for (const each of waiting) await expect(each).rejects.toMatchObject({ code: "planning_busy" });
  const next = callers.ask("a");
  await callers.end();
  await callers.end();
  await Promise.all([first, next]);
  expect(callers.begun).toEqual(["a", "a"]);
  const leaving = new AbortController();
  const running = callers.slots.run({ owner: "a", signal: leaving.signal }, async (signal) => {
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  await new Promise(setImmediate);
  leaving.abort();
  await expect(running).rejects.toMatchObject({ code: "planning_busy" });
  await expect(callers.ask("a", leaving.signal)).rejects.toMatchObject({ code: "planning_busy" });
});

test("a failure gives its slot back and says what to do", async () => {
  const slots = new PlanSlots();
  const caller = { owner: "a", signal: new AbortController().signal };
  for (let count = 0; count < 3; count += 1) {
    const failing = slots.run(caller, async () => {
      throw new ProvisionError("plan_failed", "no such zone");
    });
    await expect(failing).rejects.toMatchObject({ code: "planning_failed" });
  }
  const unconfigured = slots.run(caller, async () => {
    throw new ProvisionError("unconfigured", "no Terraform");
  });
  await expect(unconfigured).rejects.toMatchObject({ code: "region_unavailable" });
});
