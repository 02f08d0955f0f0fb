import { newId } from "@millrace/domain";
import { expect, test } from "vitest";
import { createCluster } from "./create-cluster.ts";

test("the size has a default; of the region only the installation knows one", () => {
  expect(createCluster.input.parse({ name: "orders" })).toEqual({
    name: "orders",
    size: "dev",
    deletion_protection: false,
    plaintext_listener: true,
    brokers: 1,
  });
});

test.each([
  [{ name: "Orders" }, "name"],
  [{ name: "a", size: "huge" }, "size"],
  [{ name: "a", region: "mars" }, "region"],
  [{ name: "a", environment_id: newId("org") }, "environment_id"],
  [{ name: "a", labels: { "Bad Key": "x" } }, "labels"],
])("%j is refused at %s", (input, field) => {
  expect(createCluster.input.safeParse(input).error?.issues[0]?.path[0]).toBe(field);
});
