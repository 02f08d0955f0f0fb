import { describe, expect, test } from "vitest";
import { LOCAL_DEPLOYMENT } from "../../test/deployment.ts";
import type { ClusterDeployment } from "../cluster-driver.ts";
import { BrokerFiles } from "./broker-files.ts";
import { renderProperties } from "./broker-properties.ts";
import {
  type LocalState,
  type LocalTarget,
  localPlanId,
  needsRestart,
  planLocal,
  purposeOf,
} from "./local-plan.ts";

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

function target(deployment: ClusterDeployment, state: LocalState): LocalTarget {
  const { paused } = deployment;
  return { paused, brokers: [{ files, deployment, state }], surplus: [], shared: undefined };
}

function actions(deployment: ClusterDeployment, purpose: "apply" | "drift", state: LocalState) {
  return actionsOf(target(deployment, state), purpose);
}

function actionsOf(of: LocalTarget, purpose: "apply" | "drift" | "purge") {
  return planLocal(of, purpose).changes.map(({ address, action }) => `${action} ${address}`);
}

describe("apply", () => {
  test("creates everything of a new cluster", () => {
    const plan = planLocal(target(wanted, nothing), "apply");
    expect(plan.summary).toEqual({ create: 3, update: 0, replace: 0, delete: 0, import: 0 });
    expect(plan.diff).toContain('kafka_listener = "127.0.0.1:1"');
  });

  test("changes nothing if the cluster is up to date", () => {
    expect(actions(wanted, "apply", there)).toEqual([]);
    expect(planLocal(target(wanted, there), "apply").diff).toBe("No changes.\n");
  });

  test("a setting that can change at run time needs no restart, others do", () => {
    const tuned = withProperties({ "s3.wal.cache.size": "2" });
    expect(actions(tuned, "apply", there)).toEqual(["update configuration"]);
    expect(needsRestart({ files, deployment: tuned, state: there })).toBe(false);
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
    const [change] = planLocal(target(wanted, edited), "drift").changes;
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
  const id = localPlanId(target(wanted, nothing), "purge");
  expect(purposeOf(id)).toBe("purge");
  expect(localPlanId(target(wanted, nothing), "purge")).toBe(id);
  expect(localPlanId(target({ ...wanted, paused: true }, nothing), "purge")).not.toBe(id);
  expect(purposeOf("local-drift-0123456789abcdef")).toBeUndefined();
  expect(purposeOf("another")).toBeUndefined();
});

describe("several brokers", () => {
  const several = { ...wanted, brokers: 2 };
  const filesOf = (brokerId: number) => new BrokerFiles("/home/a", "clu_a", { brokerId });
  const broker = (brokerId: number, state: LocalState | "there") => {
    const files = filesOf(brokerId);
    const properties = renderProperties(files, several);
    const found = state === "there" ? { folder: true, properties, running: true } : state;
    return { files, deployment: several, state: found };
  };
  const shared = { path: "/home/a/clusters/clu_a", folder: true, database: true };

  test("get a folder and a process each, and a database together", () => {
    const brokers = [broker(1, nothing), broker(2, nothing)];
    const none = { ...shared, folder: false, database: false };
    expect(actionsOf({ paused: false, brokers, surplus: [], shared: none }, "apply")).toEqual([
      "create folder",
      "create metadata_database",
      "create broker-1/folder",
      "create broker-1/configuration",
      "create broker-1/process",
      "create broker-2/folder",
      "create broker-2/configuration",
      "create broker-2/process",
    ]);
  });

  test("scale by what is missing and what is too many, and nothing else", () => {
    const out = { paused: false, brokers: [broker(1, "there"), broker(2, nothing)], shared };
    expect(actionsOf({ ...out, surplus: [] }, "apply")).toEqual([
      "create broker-2/folder",
      "create broker-2/configuration",
      "create broker-2/process",
    ]);
    const brokers = [broker(1, "there"), broker(2, "there")];
    const scaledIn = { paused: false, brokers, surplus: [broker(3, "there")], shared };
    expect(actionsOf(scaledIn, "apply")).toEqual([
      "delete broker-3/process",
      "delete broker-3/folder",
    ]);
    const purged = actionsOf(scaledIn, "purge");
    expect(purged.slice(-2)).toEqual(["delete metadata_database", "delete folder"]);
  });
});
