import type { Cluster } from "@millrace/domain";
import { expect, test } from "vitest";
import { specChanges } from "./spec-changes.ts";

const cluster = {
  name: "orders",
  size: "dev",
  deletionProtection: false,
  plaintextListener: true,
  labels: { team: "payments", stage: "test" },
} as unknown as Cluster;

test("a rename, a label and the protection are changes though no plan shows them", () => {
  const after = {
    ...cluster,
    name: "ledger",
    deletionProtection: true,
    plaintextListener: false,
    labels: { team: "payments", cost: "" },
  };
  expect(specChanges(cluster, after)).toEqual([
    { field: "name", before: "orders", after: "ledger" },
    { field: "deletion_protection", before: "false", after: "true" },
    { field: "plaintext_listener", before: "true", after: "false" },
    { field: "labels.cost", before: null, after: "" },
    { field: "labels.stage", before: "test", after: null },
  ]);
});

test("the same cluster has no changes", () => {
  expect(specChanges(cluster, { ...cluster, labels: { ...cluster.labels } })).toEqual([]);
});
