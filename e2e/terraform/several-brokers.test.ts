/** A cluster of several brokers, whose number Terraform changes. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { rest, unique } from "../product.ts";
import { type Produced, produceSteadily } from "../steady-producer.ts";
import { configuration } from "./configuration.ts";
import { buildProvider, Workspace, whyNot } from "./terraform.ts";

const CLUSTER = "millrace_cluster.this";

describe.skipIf(whyNot)("a cluster of three brokers", () => {
  const wanted = { name: unique("tf"), topics: 6 };
  const topics = Array.from({ length: wanted.topics }, (_, number) => `events-00${number}`);
  let workspace: Workspace;
  let clusterId: string;
  let acknowledged = 0;

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

  it.each([5, 3])(
    "has %i after the next apply, in place, while a client produces",
    async (count) => {
      workspace.write("main.tf", configuration({ ...wanted, brokers: count }));
      expect(await workspace.plan()).toEqual({ [CLUSTER]: "update" });
      const { body: cluster } = await rest("GET", `/v1/clusters/${clusterId}`);
      const bootstrap = cluster.status.endpoints[0].bootstrap_servers;
      const loads = await Promise.all(topics.map((topic) => produceSteadily(bootstrap, topic, 1)));
      let produced: Produced[] = [];
      try {
        await workspace.apply();
      } finally {
        produced = await Promise.all(loads.map((load) => load.stop()));
      }
      const failed = produced.flatMap((each) => each.failed);
      expect(failed, "what the application was told").toEqual([]);
      acknowledged += produced.reduce((sum, each) => sum + each.acknowledged, 0);
      const records = produced.reduce((sum, each) => sum + each.records, 0);
      expect(records, "records of the topics").toBe(acknowledged);
      expect(await brokers()).toHaveLength(count);
      expect(await workspace.plan()).toEqual({});
      const { body: page } = await rest("GET", `/v1/clusters/${clusterId}/topics?page_size=100`);
      expect(page.items).toHaveLength(wanted.topics);
    },
  );
});
