/** Operations on clusters of several brokers; the driver is played by FakeDriver. */
import { randomUUID } from "node:crypto";
import { ProvisionError } from "@millrace/provisioner";
import { expect, test } from "vitest";
import {
  cancelOperation,
  createCluster,
  recoverCluster,
  restartCluster,
  updateCluster,
} from "../src/index.ts";
import { coreFixture } from "./fixture.ts";
import { lives } from "./lives.ts";

const fixture = coreFixture();
const of = lives(fixture);
const ask = () => [of.core(), fixture.principal] as const;

async function running(brokers: number) {
  const tools = of.tools();
  const name = `b-${randomUUID().slice(0, 8)}`;
  const input = { name, region: "local", size: "dev", brokers } as const;
  const { operation, cluster } = await createCluster(...ask(), input);
  expect(await of.run(tools, operation)).toBe("succeeded");
  return { tools, cluster: await of.load(cluster) };
}

/** How many brokers each plan was applied for. */
function watchApplied({ driver }: ReturnType<typeof of.tools>): number[] {
  const applied: number[] = [];
  const apply = driver.apply.bind(driver);
  driver.apply = async (deployment, planId) => {
    applied.push(deployment.brokers);
    await apply(deployment, planId);
  };
  return applied;
}

test("a change of the number is applied, and takes effect with the operation", async () => {
  const { tools, cluster } = await running(3);
  const applied = watchApplied(tools);
  const patch = { brokers: 5 };
  const { operation } = await updateCluster(...ask(), { clusterId: cluster.id, patch });
  expect(await of.run(tools, operation!)).toBe("succeeded");
  const changed = await of.load(cluster);
  expect([applied, changed.brokers, changed.phase]).toEqual([[5], 5, "RUNNING"]);
  expect(changed.observedRevision).toBe(changed.revision);
});

test("a rejected change leaves the number as it was", async () => {
  const { tools, cluster } = await running(3);
  const request = { clusterId: cluster.id, patch: { brokers: 2 }, requireApproval: true };
  const { operation } = await updateCluster(...ask(), request);
  // Something to approve.
  tools.driver.states.set(cluster.id, "stopped");
  expect(await of.run(tools, operation!)).toBe("waiting");
  await cancelOperation(...ask(), operation!.id);
  expect(await of.load(cluster)).toMatchObject({ brokers: 3, revision: cluster.revision });
});

test.each([
  ["one broker", 2, "restart-2"],
  ["all brokers", undefined, "restart"],
])("a restart of %s", async (_, brokerId, effect) => {
  const { tools, cluster } = await running(3);
  const operation = await restartCluster(...ask(), { clusterId: cluster.id, brokerId });
  expect((await of.load(cluster)).phase).toBe("UPDATING");
  expect(await of.run(tools, operation)).toBe("succeeded");
  expect(tools.driver.effects).toContain(`${effect} ${cluster.id}`);
  expect(await of.load(cluster)).toMatchObject({ phase: "RUNNING", revision: cluster.revision });
});

test("a restart that a broker does not survive leaves the cluster degraded, and says which", async () => {
  const { tools, cluster } = await running(3);
  tools.driver.before = async (effect) => {
    if (!effect.startsWith("restart")) return;
    throw new ProvisionError("config", "broker 2 rejects its configuration");
  };
  const operation = await restartCluster(...ask(), { clusterId: cluster.id });
  expect(await of.run(tools, operation)).toBe("failed");
  expect((await of.load(cluster)).phase).toBe("DEGRADED");
  const ended = await fixture.db.operations.load(operation.id);
  expect(ended?.error).toMatchObject({
    step: "restart_one_by_one",
    message: "broker 2 rejects its configuration",
  });
});

test("a broker that the cluster does not have is not restarted", async () => {
  const { cluster } = await running(3);
  for (const brokerId of [0, 4]) {
    await expect(
      restartCluster(...ask(), { clusterId: cluster.id, brokerId }),
    ).rejects.toMatchObject({ code: "not_found" });
  }
  const remote = await of.remote(true);
  await expect(restartCluster(...ask(), { clusterId: remote.id })).rejects.toMatchObject({
    code: "not_supported",
  });
});

test("several brokers are not recovered from the bucket", async () => {
  const { cluster } = await running(2);
  await fixture.db.clusters.changePhase(cluster.id, { to: "DEGRADED" });
  await expect(recoverCluster(...ask(), { clusterId: cluster.id })).rejects.toMatchObject({
    code: "not_supported",
  });
});
