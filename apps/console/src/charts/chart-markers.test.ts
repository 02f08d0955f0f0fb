import { expect, it } from "vitest";
import { operationMarkers, restartMarkers, tuningMarkers } from "./chart-markers.ts";

const at = "2026-11-23T10:00:00.000Z";

it("a tuning names its values, and the change that it reverts", () => {
  const [marker] = tuningMarkers([
    {
      ...{ id: "tch_2", version: 2, created_at: at, result: "applied", problem: null },
      principal: { kind: "user", id: "usr_1", name: "ann" },
      reverts: { id: "tch_1", version: 1 },
      changes: [
        { field: "egress_baseline_bytes_per_second", from: 1_048_576, to: 0, to_default: true },
      ],
    },
  ]);
  expect(marker?.at).toBe(Date.parse(at));
  expect(marker?.text).toMatch(/^Tuning #2, reverts #1\nEgress baseline: .* → Unlimited$/);
});

it("an operation stands at its start, a restart within it at its end", () => {
  const step = (state: string) => ({
    name: "restart_broker",
    state,
    ended_at: "2026-11-23T10:00:09.000Z",
  });
  const operation = (state: string) =>
    ({
      kind: "cluster.update",
      created_at: "2026-11-23T09:00:00.000Z",
      started_at: at,
      steps: [step(state)],
    }) as never;
  expect(operationMarkers([operation("SUCCEEDED")]).map((marker) => marker.at)).toEqual([
    Date.parse(at),
    Date.parse(at) + 9_000,
  ]);
  expect(operationMarkers([operation("SKIPPED")])).toHaveLength(1);
});

it("a broker that is started again is marked, a healthy one is not", () => {
  const status = (reason: string) =>
    ({ conditions: [{ reason, message: "exit code 79", last_transition_at: at }] }) as never;
  expect(restartMarkers(status("Recovering"))).toEqual([
    { at: Date.parse(at), text: "Broker restarts\nexit code 79" },
  ]);
  expect(restartMarkers(status("Serving"))).toEqual([]);
  expect(restartMarkers(undefined)).toEqual([]);
});
