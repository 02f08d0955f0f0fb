/** A cluster of several brokers, whose number Terraform changes. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { rest, unique } from "../product.ts";
import { configuration } from "./configuration.ts";
import { buildProvider, Workspace, whyNot } from "./terraform.ts";

const CLUSTER = "millrace_cluster.this";

describe.skipIf(whyNot)("a cluster of three brokers", () => {
  const wanted = { name: unique("tf"), topics: 6 };
  let workspace: Workspace;
  let clusterId: string;

  beforeAll(async () => {
    buildProvider();
    workspace = new Workspace(["main.tf", configuration({ ...wanted, brokers: 3 })]);
    await workspace.apply();
    clusterId = (await workspace.resources())[CLUSTER].id;
  });

  afterAll(async () => {
    await workspace?.remove();
  });

  async function brokers(): Promise<{ broker_id: number; state: string }[]> {
    const { body } = await rest("GET", `/v1/clusters/${clusterId}/brokers`);
    return body.brokers.filter(({ state }: { state: string }) => state === "active");
  }

  it("stands as it was written, and is no change in the next plan", async () => {
    expect((await brokers()).map(({ broker_id }) => broker_id)).toEqual([1, 2, 3]);
    expect(await workspace.plan()).toEqual({});
  });

  it.each([5, 3])("has %i after the next apply, in place", async (count) => {
    workspace.write("main.tf", configuration({ ...wanted, brokers: count }));
    expect(await workspace.plan()).toEqual({ [CLUSTER]: "update" });
    await workspace.apply();
    expect(await brokers()).toHaveLength(count);
    expect(await workspace.plan()).toEqual({});
    const { body: topics } = await rest("GET", `/v1/clusters/${clusterId}/topics?page_size=100`);
    expect(topics.items).toHaveLength(wanted.topics);
  });
});
