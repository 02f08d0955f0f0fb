import { ProvisionError } from "@millrace/provisioner";
import { expect, test } from "vitest";
import { patienceFor } from "./failure.ts";

test.each(["throttled", "capacity", "busy", "broker_running"] as const)(
  "a step that failed with %s waits longer before it is tried again",
  (code) => {
    const patience = patienceFor(new ProvisionError(code, "not yet"));
    expect(patience).toBeGreaterThan(patienceFor(new ProvisionError("plan_failed", "no")));
    expect(patience).toBeGreaterThan(patienceFor(new Error("no")));
  },
);
