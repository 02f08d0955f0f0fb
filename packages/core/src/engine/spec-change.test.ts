import type { Cluster, SpecPart } from "@millrace/domain";
import { expect, test } from "vitest";
import { specChange } from "./spec-change.ts";

const cluster = (spec: SpecPart) => spec as Cluster;

test("what is as it was goes where it is to be, the rest stays", () => {
  const now = cluster({ name: "a", size: "small", labels: {} });
  expect(specChange(now, { name: "a", size: "dev" }, { name: "b", size: "medium" })).toEqual({
    name: "b",
  });
  expect(specChange(now, { name: "a" }, { name: "a" })).toEqual({});
});

test("each label moves by itself, whatever it is called", () => {
  const now = cluster({ labels: { kept: "1", constructor: "2", mine: "3" } });
  const from = { labels: { kept: "1", constructor: "2", gone: "4" } };
  const to = { labels: { kept: "1", toString: "5", gone: "6" } };
  expect(specChange(now, from, to)).toEqual({ labels: { kept: "1", mine: "3", toString: "5" } });
  const back = cluster({ labels: { kept: "1", toString: "5", gone: "6", mine: "3" } });
  expect(specChange(back, to, from)).toEqual({
    labels: { kept: "1", constructor: "2", gone: "4", mine: "3" },
  });
});
