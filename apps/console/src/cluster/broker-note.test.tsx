import type { Cluster } from "@millrace/contract";
import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { BrokerNote } from "./broker-note.tsx";
import { awsCluster } from "./cluster.fixture.ts";

type Phase = Cluster["status"]["phase"];

function noteOf(phase: Phase, reason: string, message: string, detail?: string): string {
  const condition = {
    type: "Ready",
    status: "False" as const,
    reason,
    message,
    ...(detail !== undefined && { detail }),
    last_transition_at: "2026-11-20T12:00:00.000Z",
  };
  const cluster = awsCluster({ status: { phase, conditions: [condition] } });
  return new FakeApi().render(<BrokerNote cluster={cluster} />);
}

test("a broker that keeps failing: how often it was restarted, and why", () => {
  const message = "Restarted 6 times in 10 min: the task upload panicked: out of order.";
  expect(noteOf("DEGRADED", "BrokerDown", message)).toContain(message);
  const serving = noteOf("RUNNING", "ServingAfterRestarts", message);
  expect(serving).toContain("The broker was restarted");
  expect(serving).toContain(message);
});

test("a broker that cannot start: what to do, once, with its own words in a fold", () => {
  const message =
    "The broker rejects its configuration. Correct it, then pause and resume the cluster.";
  const note = noteOf("DEGRADED", "BrokerCannotStart", message, "no such bucket");
  expect(note.match(/The broker cannot start/g)).toHaveLength(1);
  expect(note).toContain(message);
  expect(note).toMatch(/<details.*no such bucket.*<\/details>/);
});

test("the broker stays down in red while its recovery waits for approval", () => {
  const message = "The broker is down until its recovery is approved and done.";
  const note = noteOf("UPDATING", "Recovering", message);
  expect(note).toContain("The broker is down");
  expect(note).toContain(message);
  expect(noteOf("UPDATING", "Updating", "The cluster is being changed.")).not.toContain("down");
});

test("nothing while all is well", () => {
  expect(noteOf("RUNNING", "Serving", "The cluster serves clients.")).not.toContain("serves");
});
