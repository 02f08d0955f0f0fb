import { expect, test } from "vitest";
import type { RunEvent } from "../change-plan.ts";
import { EVENTS_PER_SECOND_MAX, RunEvents } from "./run-events.ts";

let now = 1_000_000;

function collector() {
  const told: RunEvent[] = [];
  const events = new RunEvents({ onEvent: (event) => told.push(event), now: () => now });
  return { told, events };
}

function hook(type: string, addr: string) {
  return { type, "@message": `${addr}: ${type}`, hook: { resource: { addr } } };
}

test("a change is reported from start to end", () => {
  const { told, events } = collector();
  events.take({ type: "version", "@message": "Terraform 1.11.4" });
  events.take(hook("refresh_start", "a.b"));
  events.take(hook("apply_start", "a.b"));
  events.take(hook("apply_progress", "a.b"));
  events.take(hook("apply_progress", "a.b"));
  now += 40_000;
  events.take(hook("apply_progress", "a.b"));
  events.take(hook("apply_complete", "a.b"));
  expect(told.map(({ kind, address }) => `${kind} ${address}`)).toEqual([
    "start a.b",
    "progress a.b",
    "progress a.b",
    "done a.b",
  ]);
});

test("diagnostics are kept and reported", () => {
  const { told, events } = collector();
  const diagnostic = {
    severity: "error",
    summary: "bad",
    detail: "x",
    address: "a.b",
  };
  events.take({ type: "diagnostic", diagnostic });
  expect(events.diagnostics).toEqual([diagnostic]);
  expect(told).toMatchObject([{ level: "error", message: "bad: x", address: "a.b" }]);
});

test("excess events are counted; errors pass", () => {
  const { told, events } = collector();
  for (let n = 0; n < 500; n += 1) events.take(hook("apply_complete", `a.${n}`));
  events.take(hook("apply_errored", "a.bad"));
  expect(told.length).toBe(EVENTS_PER_SECOND_MAX + 1);
  expect(told.at(-1)).toMatchObject({ level: "error", address: "a.bad" });
  now += 1_000;
  events.take(hook("apply_complete", "a.last"));
  expect(told.at(-2)?.message).toBe(`${500 - EVENTS_PER_SECOND_MAX} more events`);
  expect(told.at(-1)?.address).toBe("a.last");
});

test("messages without a resource, or malformed ones, are harmless", () => {
  const { told, events } = collector();
  events.take({ type: "apply_start", "@message": "x", hook: { resource: 5 } });
  events.take({ type: "diagnostic", diagnostic: null });
  events.take("plain words");
  expect(told.map((event) => event.message)).toEqual(["x", "plain words"]);
});
