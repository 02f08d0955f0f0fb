import type { Cluster } from "@millrace/contract";
import { expect, test } from "vitest";
import { needsRecovery } from "./broker-state.ts";
import { awsCluster } from "./cluster.fixture.ts";

const endpoints: Cluster["status"]["endpoints"] = [
  { name: "kafka", protocol: "PLAINTEXT", bootstrap_servers: "127.0.0.1:9092" },
];

test("a recovery is offered where a broker should serve and does not", () => {
  const phases = ["RUNNING", "UPDATING", "DEGRADED", "FAILED", "DELETING"] as const;
  const offered = phases.filter((phase) =>
    needsRecovery(awsCluster({ status: { phase, endpoints } })),
  );
  expect(offered).toEqual(["DEGRADED", "FAILED"]);
});

test("a paused cluster is resumed, and one that was never created has nothing to recover", () => {
  const status = { phase: "PAUSED" as const, endpoints };
  expect(needsRecovery(awsCluster({ spec: { paused: true }, status }))).toBe(false);
  expect(needsRecovery(awsCluster({ status: { phase: "FAILED", endpoints: [] } }))).toBe(false);
});
