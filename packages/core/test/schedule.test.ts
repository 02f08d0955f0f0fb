import { randomUUID } from "node:crypto";
import type { Cluster, Operation } from "@millrace/domain";
import { changePlan } from "@millrace/provisioner";
import { ManualClock } from "@millrace/testkit";
import { expect, test } from "vitest";
import {
  acceptDrift,
  checkDrift,
  createCluster,
  deleteCluster,
  restoreCluster,
  runOperation,
  scheduleOperations,
} from "../src/index.ts";
import { coreFixture, coreFor, drivers, newTools, type TestTools, unreachable } from "./fixture.ts";

const fixture = coreFixture();
const DAY_MS = 24 * 60 * 60_000;
const DRIFT_MS = 6 * 60 * 60_000;

function theCore() {
  return coreFor(fixture, { ...unreachable, drivers });
}

function run(tools: TestTools, { id }: Operation) {
  const { signal } = new AbortController();
  return runOperation(tools, id, { workerId: "w", signal, retryDelayMs: 1 });
}

async function running(tools: TestTools, name = `c-${randomUUID().slice(0, 8)}`) {
  const input = { name, region: "local", size: "dev" } as const;
  const { operation, cluster } = await createCluster(theCore(), fixture.principal, input);
  expect(await run(tools, operation)).toBe("succeeded");
  return load(cluster);
}

async function load({ id }: Cluster): Promise<Cluster> {
  return (await fixture.db.clusters.load(id))!;
}

async function latest({ id }: Cluster): Promise<Operation> {
  const { organizationId } = fixture.principal;
  const page = await fixture.db.operations.list(organizationId, { limit: 1 }, { clusterId: id });
  return page.items[0]!;
}

function schedule(atMs: number) {
  const clock = new ManualClock(new Date(Date.now() + atMs));
  return scheduleOperations({ db: fixture.db.worker, clock }, { driftIntervalMs: DRIFT_MS });
}

async function deletedFor(days: number, tools: TestTools): Promise<Cluster> {
  const { id } = await running(tools);
  const input = { clusterId: id, retainDays: days };
  const deletion = await deleteCluster(theCore(), fixture.principal, input);
  expect(await run(tools, deletion)).toBe("succeeded");
  return load({ id } as Cluster);
}

test("the data of a deleted cluster is kept until its day, and then purged", async () => {
  const tools = newTools(fixture.db);
  const deleted = await deletedFor(7, tools);
  expect(deleted.phase).toBe("PENDING_PURGE");
  expect(tools.driver.states.get(deleted.id)).toBe("stopped");
  await schedule(6 * DAY_MS);
  expect((await latest(deleted)).kind).toBe("cluster.delete");
  await schedule(8 * DAY_MS);
  const purge = await latest(deleted);
  expect(purge.kind).toBe("cluster.purge");
  expect(await run(tools, purge)).toBe("succeeded");
  expect((await load(deleted)).phase).toBe("DELETED");
  expect(await tools.driver.isDestroyed(deleted.id)).toBe(true);
});

test("a cluster comes back with its data, unless its name was given away", async () => {
  const tools = newTools(fixture.db);
  const deleted = await deletedFor(1, tools);
  const usurper = await running(tools, deleted.name);
  const target = { clusterId: deleted.id };
  await expect(restoreCluster(theCore(), fixture.principal, target)).rejects.toMatchObject({
    code: "cluster_name_taken",
  });
  const gone = await deleteCluster(theCore(), fixture.principal, {
    ...{ clusterId: usurper.id, retainDays: 0 },
  });
  expect(await run(tools, gone)).toBe("succeeded");
  const restoring = await restoreCluster(theCore(), fixture.principal, target);
  expect(await run(tools, restoring)).toBe("succeeded");
  const back = await load(deleted);
  expect(back).toMatchObject({ phase: "RUNNING", purgeAt: undefined });
  expect(back.placement).toEqual(deleted.placement);
  await schedule(3 * DAY_MS);
  expect((await latest(deleted)).kind).toBe("cluster.restore");
});

test("drift is shown, accepted by its digest, and shown again when it changes", async () => {
  const tools = newTools(fixture.db);
  const cluster = await running(tools);
  const target = { clusterId: cluster.id };
  let size = "1";
  tools.driver.drift = async () => {
    const attributes = [{ name: "size", before: "0", after: size }];
    return changePlan("d", [{ address: "volume", type: "volume", action: "update", attributes }]);
  };
  const look = async () => {
    const operation = await checkDrift(theCore(), fixture.principal, target);
    expect(await run(tools, operation)).toBe("succeeded");
    return load(cluster);
  };
  const drifted = await look();
  expect(drifted).toMatchObject({ phase: "RUNNING", drift: { status: "drifted" } });
  const digest = drifted.drift.digest ?? "";
  await acceptDrift(theCore(), fixture.principal, { clusterId: cluster.id, digest });
  expect((await look()).drift.status).toBe("accepted");
  size = "2";
  expect((await look()).drift.status).toBe("drifted");
  const stale = acceptDrift(theCore(), fixture.principal, { clusterId: cluster.id, digest });
  await expect(stale).rejects.toMatchObject({ code: "plan_changed" });
  tools.driver.drift = async () => changePlan("d", []);
  expect((await look()).drift).toMatchObject({ status: "in_sync", digest: undefined });
});

test("clusters beyond this machine are looked at once an interval, those here never", async () => {
  const { db, principal } = fixture;
  const tools = newTools(db);
  const here = await running(tools);
  const [environment] = (
    await db.organizations.environments(principal.organizationId, { limit: 1 })
  ).items;
  const remote = await db.clusters.create({
    ...{ organizationId: principal.organizationId, environmentId: environment!.id },
    ...{ name: "remote", region: "eu-central-1", size: "dev", labels: {}, conditions: [] },
  });
  await db.clusters.changePhase(remote.id, { to: "RUNNING", observed: true });
  await schedule(DRIFT_MS / 2);
  expect(await latest(remote)).toBeUndefined();
  await schedule(DRIFT_MS + 60_000);
  expect(await latest(remote)).toMatchObject({ kind: "cluster.check_drift", provider: "aws" });
  // One that is under way is not begun twice.
  await schedule(DRIFT_MS + 60_000);
  expect((await latest(here)).kind).toBe("cluster.create");
  expect((await load(remote)).phase).toBe("RUNNING");
});
