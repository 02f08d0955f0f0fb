import { expect, test } from "vitest";
import {
  assertServing,
  CANNOT_START,
  CLUSTER_PHASES,
  type Cluster,
  canTransition,
  clusterNotReady,
  phasesBefore,
} from "./cluster.ts";

test("every living phase can end in deletion", () => {
  for (const phase of CLUSTER_PHASES) {
    if (phase === "DELETING" || phase === "DELETED") continue;
    expect(canTransition(phase, "DELETING")).toBe(true);
  }
});

test("a deleted cluster never comes back", () => {
  for (const phase of CLUSTER_PHASES) expect(canTransition("DELETED", phase)).toBe(false);
});

test("data that waits for its purge comes back by an update, or goes by a deletion", () => {
  expect(phasesBefore("PENDING_PURGE")).toEqual(["UPDATING", "DELETING"]);
  expect(CLUSTER_PHASES.filter((to) => canTransition("PENDING_PURGE", to))).toEqual([
    "UPDATING",
    "DELETING",
  ]);
});

test("a paused cluster is changed before it runs again", () => {
  expect(canTransition("PAUSED", "RUNNING")).toBe(false);
  expect(phasesBefore("PAUSED")).toEqual(["UPDATING"]);
});

test("only a provisioned or recovered cluster becomes RUNNING", () => {
  expect(phasesBefore("RUNNING")).toEqual(["PROVISIONING", "UPDATING", "DEGRADED"]);
});

test("a broker that cannot start is not asked: the answer is what its status says to do", () => {
  const message = "The broker rejects its configuration. Correct it.";
  const condition = { type: "Ready", status: "False", message, lastTransitionAt: "" } as const;
  const degraded = (reason: string) =>
    ({ phase: "DEGRADED", conditions: [{ ...condition, reason }] }) as unknown as Cluster;
  expect(() => assertServing(degraded("BrokerDown"))).not.toThrow();
  expect(() => assertServing(degraded(CANNOT_START))).toThrow(
    expect.objectContaining({ code: "broker_unavailable", remedy: message }),
  );
});

test("a refusal names the phase in words", () => {
  const paused = { name: "orders", phase: "PAUSED", conditions: [] } as unknown as Cluster;
  expect(() => assertServing(paused)).toThrow("Cluster orders is paused.");
  const purged = { name: "orders", phase: "PENDING_PURGE" } as const;
  expect(clusterNotReady(purged).message).toBe("Cluster orders is pending purge.");
});

test.each([
  ["PROVISIONING", true],
  ["UPDATING", true],
  ["PAUSED", false],
  ["FAILED", false],
  ["DELETING", false],
  ["PENDING_PURGE", false],
] as const)("of a cluster that is %s, a retry may help: %s", (phase, retryable) => {
  expect(clusterNotReady({ name: "orders", phase })).toMatchObject({ retryable });
});

test("a retry helps where the refusal says after how long", () => {
  const running = { name: "orders", phase: "RUNNING" } as const;
  expect(clusterNotReady(running, { remedy: "Wait." }).retryable).toBe(false);
  expect(clusterNotReady(running, { remedy: "Wait.", retryAfterSeconds: 5 }).retryable).toBe(true);
});
