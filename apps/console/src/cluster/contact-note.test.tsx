import type { Cluster } from "@millrace/contract";
import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { exactMoment } from "../format/time.ts";
import { hasLiveFigures } from "./broker-state.ts";
import { awsCluster } from "./cluster.fixture.ts";
import { ContactNote } from "./contact-note.tsx";

const since = "2026-11-20T12:00:00.000Z";
const lost = { broker_id: 0, control_link: "disconnected" as const, since };

function noteOf(cluster: Cluster): string {
  return new FakeApi().render(<ContactNote cluster={cluster} />);
}

test("a broker without a connection: since when, and no figures as if they were current", () => {
  const cluster = awsCluster({ status: { brokers: [lost] } });
  expect(noteOf(cluster)).toContain(`No contact since ${exactMoment(since)}`);
  expect(hasLiveFigures(cluster)).toBe(false);
});

test("one of two brokers is named", () => {
  const connected = { broker_id: 1, control_link: "connected" as const, since };
  const brokers = [lost, connected];
  const cluster = awsCluster({ spec: { brokers: 2 }, status: { brokers } });
  expect(noteOf(cluster)).toContain(`No contact with broker 0 since ${exactMoment(since)}`);
  expect(hasLiveFigures(cluster)).toBe(true);
});

test("nothing where no broker is to run, or all are connected", () => {
  expect(noteOf(awsCluster())).not.toContain("No contact");
  const paused = awsCluster({
    spec: { paused: true },
    status: { phase: "PAUSED", brokers: [lost] },
  });
  expect(noteOf(paused)).not.toContain("No contact");
});
