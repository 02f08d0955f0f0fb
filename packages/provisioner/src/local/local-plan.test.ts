import { describe, expect, test } from "vitest";
import { LOCAL_DEPLOYMENT } from "../../test/deployment.ts";
import type { ClusterDeployment } from "../cluster-driver.ts";
import { BrokerFiles, renderProperties } from "./broker-files.ts";
import { type LocalState, localPlanId, needsRestart, planLocal, purposeOf } from "./local-plan.ts";

const files = new BrokerFiles("/home/a", "clu_a");
const wanted: ClusterDeployment = {
  ...LOCAL_DEPLOYMENT,
  clusterId: "clu_a",
  placement: { host: "127.0.0.1", kafkaPort: 1, adminPort: 2 },
  properties: { "s3.wal.cache.size": "1", "offsets.topic.num.partitions": "8" },
};
const nothing: LocalState = { folder: false, properties: undefined, running: false };
const there: LocalState = {
  folder: true,
  properties: renderProperties(files, wanted),
  running: true,
};

function withProperties(properties: Record<string, string>): ClusterDeployment {
  return { ...wanted, properties: { ...wanted.properties, ...properties } };
}

function actions(deployment: ClusterDeployment, purpose: "apply" | "drift", state: LocalState) {
  return planLocal(files, deployment, purpose, state).changes.map(
    ({ address, action }) => `${action} ${address}`,
  );
}

describe("apply", () => {
  test("creates everything of a new cluster", () => {
    const plan = planLocal(files, wanted, "apply", nothing);
    expect(plan.summary).toEqual({ create: 3, update: 0, replace: 0, delete: 0, import: 0 });
    expect(plan.diff).toContain('kafka_listener = "127.0.0.1:1"');
  });

  test("changes nothing if the cluster is up to date", () => {
    expect(actions(wanted, "apply", there)).toEqual([]);
    expect(planLocal(files, wanted, "apply", there).diff).toBe("No changes.\n");
  });

  test("a setting that can change at run time needs no restart, others do", () => {
    const tuned = withProperties({ "s3.wal.cache.size": "2" });
    expect(actions(tuned, "apply", there)).toEqual(["update configuration"]);
    expect(needsRestart(files, tuned, there)).toBe(false);
    const resized = withProperties({ "offsets.topic.num.partitions": "16" });
    expect(actions(resized, "apply", there)).toEqual(["update configuration", "replace process"]);
  });

  test("a paused cluster's broker is stopped, and not started", () => {
    const paused = { ...wanted, paused: true };
    expect(actions(paused, "apply", there)).toEqual(["delete process"]);
    expect(actions(paused, "apply", { ...there, running: false })).toEqual([]);
  });
});

describe("drift", () => {
  test("shows an edited configuration, a stopped broker and a missing folder", () => {
    const edited = {
      ...there,
      properties: there.properties?.replace("partitions=8", "partitions=9"),
    };
    const [change] = planLocal(files, wanted, "drift", edited).changes;
    expect(change?.attributes).toEqual([
      { name: "offsets.topic.num.partitions", before: "8", after: "9" },
    ]);
    expect(actions(wanted, "drift", { ...there, running: false })).toEqual(["delete process"]);
    expect(actions(wanted, "drift", nothing)).toEqual(["delete folder"]);
  });

  test("a tuning that was changed at run time is not drift", () => {
    expect(actions(withProperties({ "s3.wal.cache.size": "2" }), "drift", there)).toEqual([]);
  });
});

test("an id names purpose and target", () => {
  const id = localPlanId(files, wanted, "purge");
  expect(purposeOf(id)).toBe("purge");
  expect(localPlanId(files, wanted, "purge")).toBe(id);
  expect(localPlanId(files, { ...wanted, paused: true }, "purge")).not.toBe(id);
  expect(purposeOf("local-drift-0123456789abcdef")).toBeUndefined();
  expect(purposeOf("another")).toBeUndefined();
});
