import type { Cluster, Operation } from "@millrace/domain";
import {
  type ClusterDeployment,
  type ClusterDriver,
  changePlan,
  ProvisionError,
} from "@millrace/provisioner";
import { expect, test } from "vitest";
import {
  approveOperation,
  cancelOperation,
  createCluster,
  getOperationPlan,
  pauseCluster,
  resumeCluster,
  retryOperation,
  runOperation,
  scheduleOperations,
} from "../src/index.ts";
import { APPROVAL_WAIT_MS_MAX } from "../src/operation/schedule-operations.ts";
import { coreFixture, coreFor, drivers, newTools, type TestTools, unreachable } from "./fixture.ts";

const fixture = coreFixture();
let names = 0;

function theCore() {
  return coreFor(fixture, { ...unreachable, drivers });
}

async function askForApproved() {
  names += 1;
  return createCluster(theCore(), fixture.principal, {
    ...{ name: `approved-${names}`, region: "local", size: "dev" },
    requireApproval: true,
  });
}

const principal = () => ({
  ...fixture.principal,
  userId: "usr_01JD0000000000000000000000" as const,
});

function run(tools: TestTools, { id }: Operation, signal = new AbortController().signal) {
  return runOperation(tools, id, { workerId: "w", signal, retryDelayMs: 1 });
}

async function look({ id, clusterId }: Operation) {
  const [operation, cluster] = await Promise.all([
    fixture.db.operations.load(id),
    fixture.db.clusters.load(clusterId),
  ]);
  return { operation: operation!, cluster: cluster! };
}

async function approve(operation: Operation) {
  const { plan } = await getOperationPlan(theCore(), fixture.principal, operation.id);
  const input = { operationId: operation.id, digest: plan.digest };
  return approveOperation(theCore(), principal(), input);
}

test("a plan waits for its approval with no worker at it, and is then carried out", async () => {
  const tools = newTools(fixture.db);
  const { operation } = await askForApproved();
  expect(await run(tools, operation)).toBe("waiting");
  expect(tools.driver.effects).toEqual([]);
  expect((await look(operation)).operation).toMatchObject({ phase: "WAITING", done: false });
  expect(await fixture.db.fleet.journal.unclaimed(100, "local")).not.toContainEqual(
    expect.objectContaining({ id: operation.id }),
  );
  expect(await run(tools, operation)).toBe("not_claimed");

  const other = { operationId: operation.id, digest: "of another plan" };
  await expect(approveOperation(theCore(), principal(), other)).rejects.toMatchObject({
    code: "plan_changed",
  });
  expect((await approve(operation)).approval?.approvedBy).toBe(principal().userId);
  await expect(approve(operation)).rejects.toMatchObject({ code: "approval_not_awaited" });
  expect(await run(tools, operation)).toBe("succeeded");
  expect((await look(operation)).cluster.phase).toBe("RUNNING");
});

test("whoever approved a plan is in the log and at the step by name, not by id", async () => {
  const tools = newTools(fixture.db);
  const { operation } = await askForApproved();
  expect(await run(tools, operation)).toBe("waiting");
  const { id: apiKeyId } = await fixture.db.apiKeys.create({
    ...{ organizationId: principal().organizationId, name: "deploy pipeline", role: "admin" },
    ...{ hint: "mrk_", secretHash: new Uint8Array(32) },
  });
  const { plan } = await getOperationPlan(theCore(), principal(), operation.id);
  await approveOperation(
    theCore(),
    { ...principal(), userId: undefined, apiKeyId },
    { operationId: operation.id, digest: plan.digest },
  );
  expect(await run(tools, operation)).toBe("succeeded");
  const step = (await look(operation)).operation.steps.find(({ name }) => name === "approve");
  expect(step).toMatchObject({ state: "SUCCEEDED", message: "approved by deploy pipeline" });
  const log = await fixture.db.operations.events(operation.id, 0, 100);
  const messages = log.map(({ message }) => message);
  expect(messages).toContain("approved by deploy pipeline");
  expect(messages).toContain("started");
});

test("an approval that nobody asked for is skipped, and said not to be requested", async () => {
  const tools = newTools(fixture.db);
  const { operation } = await createCluster(theCore(), fixture.principal, {
    ...{ name: "unasked", region: "local", size: "dev" },
  });
  expect(await run(tools, operation)).toBe("succeeded");
  const step = (await look(operation)).operation.steps.find(({ name }) => name === "approve");
  expect(step).toMatchObject({ state: "SKIPPED", message: "not requested" });
});

test("a plan that went stale is asked for again where it does more than was approved", async () => {
  const tools = newTools(fixture.db);
  const { cluster } = await running(tools);
  const operation = await fixture.db.transaction(async (tx) => {
    const made = await tx.operations.create({
      ...{ organizationId: cluster.organizationId, clusterId: cluster.id },
      ...{ kind: "cluster.update", parameters: { requireApproval: true } },
    });
    await tx.clusters.changePhase(cluster.id, { to: "UPDATING" });
    return made;
  });
  let plans = 0;
  const applied: string[] = [];
  const wanted = [["a"], ["a", "b"], ["b"]];
  tools.driver.plan = async () => {
    const addresses = wanted[plans] ?? [];
    plans += 1;
    const changes = addresses.map((address) => ({
      ...{ address, type: "thing", action: "create" as const, attributes: [] },
    }));
    return changePlan(`plan-${plans}`, changes);
  };
  tools.driver.apply = async (_: ClusterDeployment, planId: string) => {
    applied.push(planId);
    if (planId !== "plan-3") throw new ProvisionError("plan_stale", "something changed");
  };
  expect(await run(tools, operation)).toBe("waiting");
  await approve(operation);
  // The second plan does more than the first: it is not carried out before somebody has seen it.
  expect(await run(tools, operation)).toBe("waiting");
  expect(applied).toEqual(["plan-1"]);
  await approve(operation);
  // The third one is a part of the second: its approval goes over.
  expect(await run(tools, operation)).toBe("succeeded");
  expect(applied).toEqual(["plan-1", "plan-2", "plan-3"]);
});

/** A change of the cluster that nobody has begun. */
function changing({ organizationId, id: clusterId }: Cluster): Promise<Operation> {
  return fixture.db.transaction(async (tx) => {
    const made = await tx.operations.create({ organizationId, clusterId, kind: "cluster.update" });
    await tx.clusters.changePhase(clusterId, { to: "UPDATING" });
    return made;
  });
}

test("a plan that is stale every time ends the operation, and the cluster is looked after", async () => {
  const tools = newTools(fixture.db);
  const { cluster } = await running(tools);
  const operation = await changing(cluster);
  tools.driver.apply = async () => {
    throw new ProvisionError("plan_stale", "somebody changes things all the time");
  };
  expect(await run(tools, operation)).toBe("failed");
  const ended = await look(operation);
  expect(ended.operation.error).toMatchObject({
    code: "provisioning_failed",
    step: "restart_broker",
  });
  expect(ended.cluster.phase).toBe("DEGRADED");
});

test("a plan that fails half-way every time ends the operation with what failed it", async () => {
  const tools = newTools(fixture.db);
  const { cluster } = await running(tools);
  const operation = await changing(cluster);
  let plans = 0;
  const planned = tools.driver.plan.bind(tools.driver);
  tools.driver.plan = async (deployment, options) => {
    plans += 1;
    return { ...(await planned(deployment, options)), id: `plan-${plans}` };
  };
  const begun = new Set<string>();
  tools.driver.apply = async (_: ClusterDeployment, planId: string) => {
    const isStale = begun.has(planId);
    begun.add(planId);
    if (isStale) throw new ProvisionError("plan_stale", "a part of it was carried out");
    throw new ProvisionError("apply_failed", "the cloud did not make a volume");
  };
  expect(await run(tools, operation)).toBe("failed");
  expect(begun.size).toBe(6);
  expect((await look(operation)).operation.error).toMatchObject({
    code: "provisioning_failed",
    message: "the cloud did not make a volume",
  });
});

test.each(["plan", "apply"])(
  "plans that are stale for a reason of their own are not told by an older failure to %s",
  async (failing) => {
    const tools = newTools(fixture.db);
    const { cluster } = await running(tools);
    const operation = await fixture.db.transaction(async (tx) => {
      const { organizationId, id: clusterId } = cluster;
      const made = await tx.operations.create({
        organizationId,
        clusterId,
        kind: "cluster.update",
      });
      await tx.clusters.changePhase(cluster.id, { to: "UPDATING" });
      return made;
    });
    let calls = 0;
    const failOnce = (effect: string) => {
      if (effect !== failing) return;
      calls += 1;
      if (calls === 1) throw new ProvisionError("throttled", "slow down");
    };
    const planned = tools.driver.plan.bind(tools.driver);
    tools.driver.plan = async (deployment, options) => {
      failOnce("plan");
      return planned(deployment, options);
    };
    tools.driver.apply = async () => {
      failOnce("apply");
      throw new ProvisionError("plan_stale", "somebody changes things all the time");
    };
    expect(await run(tools, operation)).toBe("failed");
    expect((await look(operation)).operation.error).toMatchObject({
      step: "restart_broker",
      message: "somebody changes things all the time",
    });
  },
);

test("an approval that never comes ends the operation in time", async () => {
  const tools = newTools(fixture.db);
  const { operation } = await askForApproved();
  await run(tools, operation);
  const at = (ms: number) => ({ now: () => new Date(Date.now() + ms) });
  const options = { driftIntervalMs: 1e9 };
  await scheduleOperations({ db: fixture.db.worker, clock: at(APPROVAL_WAIT_MS_MAX / 2) }, options);
  expect((await look(operation)).operation.phase).toBe("WAITING");
  await scheduleOperations(
    { db: fixture.db.worker, clock: at(APPROVAL_WAIT_MS_MAX + 60_000) },
    options,
  );
  const ended = await look(operation);
  expect([ended.operation.phase, ended.cluster.phase]).toEqual(["CANCELLED", "FAILED"]);
});

test("an operation that waits is cancelled at once, retried, and has the same id", async () => {
  const tools = newTools(fixture.db);
  const { operation } = await askForApproved();
  await run(tools, operation);
  const cancelled = await cancelOperation(theCore(), principal(), operation.id);
  expect(cancelled).toMatchObject({ phase: "CANCELLED", done: true });
  await expect(cancelOperation(theCore(), principal(), operation.id)).rejects.toMatchObject({
    code: "operation_not_cancellable",
  });
  const again = await retryOperation(theCore(), principal(), operation.id);
  expect(again).toMatchObject({ id: operation.id, phase: "PENDING", done: false });
  expect((await look(operation)).cluster.phase).toBe("PROVISIONING");
  expect(await run(tools, operation)).toBe("waiting");
  await approve(operation);
  expect(await run(tools, operation)).toBe("succeeded");
});

test("an operation at work ends when it is asked to, and its step is told", async () => {
  const tools = newTools(fixture.db);
  const { operation } = await askForApproved();
  await run(tools, operation);
  await approve(operation);
  let told = false;
  const driver: ClusterDriver = tools.driver;
  driver.waitReady = async (_deployment, options) => {
    await cancelOperation(theCore(), principal(), operation.id);
    await new Promise<void>((resolve) => {
      if (options?.signal?.aborted) resolve();
      options?.signal?.addEventListener("abort", () => resolve());
    });
    told = true;
    throw new ProvisionError("aborted", "waiting was aborted");
  };
  expect(await run(tools, operation)).toBe("cancelled");
  expect(told).toBe(true);
  const ended = await look(operation);
  expect(ended.operation).toMatchObject({ phase: "CANCELLED", done: true, error: undefined });
  expect(ended.cluster.phase).toBe("FAILED");
  expect(tools.driver.states.get(ended.cluster.id)).toBe("stopped");
});

test("a pause that failed is retried to its end; a cluster comes back from it", async () => {
  const tools = newTools(fixture.db);
  const { cluster } = await running(tools);
  const pause = await pauseCluster(theCore(), principal(), { clusterId: cluster.id });
  tools.driver.before = async (effect) => {
    if (effect === "stop") throw new ProvisionError("stop_failed", "it does not stop");
  };
  expect(await run(tools, pause)).toBe("failed");
  expect((await look(pause)).cluster).toMatchObject({ phase: "FAILED", paused: true });
  tools.driver.before = async () => {};
  await retryOperation(theCore(), principal(), pause.id);
  expect(await run(tools, pause)).toBe("succeeded");
  const paused = (await look(pause)).cluster;
  expect(paused).toMatchObject({
    phase: "PAUSED",
    paused: true,
    observedRevision: paused.revision,
  });
  expect(tools.driver.states.get(cluster.id)).toBe("stopped");

  const resume = await resumeCluster(theCore(), principal(), { clusterId: cluster.id });
  expect(await run(tools, resume)).toBe("succeeded");
  expect((await look(resume)).cluster).toMatchObject({ phase: "RUNNING", paused: false });
  expect(tools.driver.states.get(cluster.id)).toBe("ready");
});

async function running(tools: TestTools) {
  names += 1;
  const input = { name: `running-${names}`, region: "local", size: "dev" } as const;
  const { operation } = await createCluster(theCore(), fixture.principal, input);
  expect(await run(tools, operation)).toBe("succeeded");
  return look(operation);
}
