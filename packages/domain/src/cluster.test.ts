import { expect, test } from "vitest";
import { CLUSTER_PHASES, canTransition, phasesBefore } from "./cluster.ts";

test("every living phase can end in deletion", () => {
  for (const phase of CLUSTER_PHASES) {
    if (phase === "DELETING" || phase === "DELETED") continue;
    expect(canTransition(phase, "DELETING")).toBe(true);
  }
});

test("a deleted cluster never comes back", () => {
  for (const phase of CLUSTER_PHASES) expect(canTransition("DELETED", phase)).toBe(false);
});

test("only a provisioned or recovered cluster becomes RUNNING", () => {
  expect(phasesBefore("RUNNING")).toEqual(["PROVISIONING", "UPDATING", "DEGRADED"]);
});
