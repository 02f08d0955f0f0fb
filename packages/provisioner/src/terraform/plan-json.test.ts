import { describe, expect, test } from "vitest";
import { driftedChanges, plannedChanges } from "./plan-json.ts";

interface Change {
  actions: string[];
  before?: unknown;
  after?: unknown;
  after_unknown?: unknown;
  before_sensitive?: unknown;
  after_sensitive?: unknown;
  importing?: unknown;
}

function resource(address: string, change: Change, mode = "managed") {
  return { address, mode, type: address.split(".")[0], change };
}

function plan(...changes: ReturnType<typeof resource>[]) {
  return { format_version: "1.2", resource_changes: changes };
}

describe("a plan", () => {
  test("shows what is set, what is unknown, and nothing that is null", () => {
    const after = { size: 10, tags: { a: "b" }, zones: ["x", "y"], none: null, empty: "" };
    const [change] = plannedChanges(
      plan(
        resource("aws_ebs_volume.wal", {
          actions: ["create"],
          before: null,
          after,
          after_unknown: { id: true, zones: [false, false] },
        }),
      ),
    );
    expect(change).toEqual({
      address: "aws_ebs_volume.wal",
      type: "aws_ebs_volume",
      action: "create",
      attributes: [
        { name: "id", before: null, after: "(known after apply)" },
        { name: "size", before: null, after: "10" },
        { name: "tags.a", before: null, after: "b" },
        { name: "zones[0]", before: null, after: "x" },
        { name: "zones[1]", before: null, after: "y" },
      ],
    });
  });

  test("hides sensitive values at any depth", () => {
    const text = JSON.stringify(
      plannedChanges(
        plan(
          resource("a.b", {
            actions: ["update"],
            before: { secret: "one", nested: [{ key: "two" }] },
            after: { secret: "three", nested: [{ key: "four" }] },
            before_sensitive: { secret: true, nested: [{ key: true }] },
            after_sensitive: { secret: true, nested: [{ key: true }] },
          }),
        ),
      ),
    );
    expect(text).not.toMatch(/one|two|three|four/);
  });

  test.each([
    [["no-op"], undefined],
    [["read"], undefined],
    [["update"], "update"],
    [["delete", "create"], "replace"],
    [["create", "delete"], "replace"],
    [["delete"], "delete"],
  ])("%j is %s", (actions, action) => {
    const changes = plannedChanges(plan(resource("a.b", { actions, before: {}, after: {} })));
    expect(changes.map((each) => each.action)).toEqual(action === undefined ? [] : [action]);
  });

  test("an import counts as one, with or without changes", () => {
    for (const actions of [["no-op"], ["update"]]) {
      const change = { actions, before: { a: 1 }, after: { a: 1 }, importing: { id: "vol-1" } };
      expect(plannedChanges(plan(resource("a.b", change)))).toMatchObject([{ action: "import" }]);
    }
  });

  test("of a changed script only the lines that differ are shown", () => {
    const script = (line: string) => Buffer.from(`#!/bin/bash\n${line}\nend`).toString("base64");
    const [change] = plannedChanges(
      plan(
        resource("aws_launch_template.slot", {
          actions: ["update"],
          before: { user_data: script("old") },
          after: { user_data: script("new") },
        }),
      ),
    );
    expect(change?.attributes).toEqual([{ name: "user_data", before: "old", after: "new" }]);
  });

  test("an unknown format is rejected", () => {
    expect(() => plannedChanges({ format_version: "2.0" })).toThrow("format that is unknown");
    expect(() => plannedChanges("text")).toThrow("format that is unknown");
  });
});

describe("drift", () => {
  const configuration = {
    root_module: {
      resources: [{ address: "aws_ebs_volume.wal", expressions: { throughput: {}, tags: {} } }],
    },
  };

  test("covers what the stack sets, not what AWS changes by itself", () => {
    const before = { throughput: 125, arn: "a", tags: { x: "1" }, tags_all: { x: "1" } };
    const after = { throughput: 250, arn: "b", tags: { x: "2" }, tags_all: { x: "2" } };
    const drifted = resource("aws_ebs_volume.wal", { actions: ["update"], before, after });
    const changes = driftedChanges({
      format_version: "1.2",
      configuration,
      resource_drift: [drifted],
    });
    expect(changes[0]?.attributes.map((each) => each.name)).toEqual(["tags.x", "throughput"]);
    const own = resource("aws_ebs_volume.wal", {
      actions: ["update"],
      before: { arn: "a" },
      after: { arn: "b" },
    });
    expect(driftedChanges({ format_version: "1.2", configuration, resource_drift: [own] })).toEqual(
      [],
    );
  });

  test("a resource that is gone is drift", () => {
    const gone = resource("aws_ebs_volume.wal", {
      actions: ["delete"],
      before: { id: "vol-1", throughput: 125 },
      after: null,
    });
    const changes = driftedChanges({
      format_version: "1.2",
      configuration,
      resource_drift: [gone],
    });
    expect(changes).toMatchObject([
      { action: "delete", attributes: [{ name: "id", before: "vol-1", after: null }] },
    ]);
  });
});
