import { BrokerError } from "@millrace/broker-admin";
import type { Cluster, Operation } from "@millrace/domain";
import { ProvisionError } from "@millrace/provisioner";
import { runSql } from "@millrace/testkit";
import { describe, expect, test } from "vitest";
import type { RunOptions } from "../src/engine/index.ts";
import { deleteCluster, runOperation } from "../src/index.ts";
import {
  askForCluster,
  coreFixture,
  coreFor,
  drivers,
  newTools,
  type TestTools,
  unreachable,
  withRenewals,
} from "./fixture.ts";

const fixture = coreFixture();

function run(tools: TestTools, id: Operation["id"], changes: Partial<RunOptions> = {}) {
  const { signal } = new AbortController();
  return runOperation(tools, id, { workerId: "w", signal, retryDelayMs: 1, ...changes });
}

async function look(operation: Operation): Promise<{ operation: Operation; cluster: Cluster }> {
  const { db } = fixture;
  const now = await db.operations.get(operation.organizationId, operation.id);
  const cluster = await db.clusters.load(operation.clusterId);
  return { operation: now!, cluster: cluster! };
}

async function askForDeletion(cluster: Cluster): Promise<Operation> {
  const { principal } = fixture;
  const core = coreFor(fixture, { ...unreachable, drivers });
  return deleteCluster(core, principal, { clusterId: cluster.id, retainDays: 0 });
}

test("from an accepted cluster to one that is gone, step by step", async () => {
  const tools = newTools(fixture.db);
  const { cluster, operation } = await askForCluster(fixture);
  expect(await run(tools, operation.id)).toBe("succeeded");
  const made = await look(operation);
  expect(made.cluster).toMatchObject({ phase: "RUNNING", observedRevision: 1 });
  expect(made.cluster.placement).toBeDefined();
  expect([...tools.fake.users.keys()]).toEqual(["admin"]);
  const [password = ""] = tools.fake.users.values();
  expect(password).toMatch(/^[\w-]{43}$/);
  const kept = [made, await fixture.db.operations.events(operation.id, 0, 100)];
  expect(JSON.stringify(kept)).not.toContain(password);
  expect(made.operation.steps.every((step) => step.state !== "PENDING")).toBe(true);
  expect(tools.driver.effects.map((effect) => effect.split(" ")[0])).toEqual([
    "prepare",
    "start",
    "wait",
  ]);

  const deletion = await askForDeletion(cluster);
  expect(await run(tools, deletion.id)).toBe("succeeded");
  const gone = await look(deletion);
  expect(gone.cluster).toMatchObject({ phase: "DELETED", placement: undefined });
  expect(await tools.driver.isDestroyed(cluster.id)).toBe(true);
});

test("of two deliveries of one operation, one runs it", async () => {
  const tools = newTools(fixture.db);
  const { operation } = await askForCluster(fixture);
  const results = await Promise.all([run(tools, operation.id), run(tools, operation.id)]);
  expect(results.sort()).toEqual(["not_claimed", "succeeded"]);
  expect(await run(tools, operation.id)).toBe("not_claimed");
  expect(tools.driver.effects).toHaveLength(3);
});

/** As if as much time had passed as a lease lasts. */
async function endLease(id: Operation["id"]): Promise<void> {
  await runSql(
    fixture.ownerUrl,
    `UPDATE operation SET lease_until = now() - interval '1 second' WHERE id = '${id}'`,
  );
}

describe("a worker that dies", () => {
  class Killed extends Error {}
  /** Runs until the effect named `at` is about to happen, and then never touches anything again. */
  async function runAndDie(tools: TestTools, id: Operation["id"], at: string): Promise<void> {
    const dead = new Promise<never>(() => {});
    await new Promise<void>((resolve) => {
      tools.driver.before = async (effect) => {
        if (effect !== at) return;
        resolve();
        await dead;
      };
      // A dead worker renews no lease.
      const db = withRenewals(fixture.db, () => dead);
      void run({ ...tools, db }, id).catch(() => new Killed());
    });
    tools.driver.before = async () => {};
  }

  test.each(["prepare", "start", "wait"])(
    "before it could %s: the next one goes on, and nothing is done twice",
    async (at) => {
      const tools = newTools(fixture.db);
      const { operation } = await askForCluster(fixture);
      await runAndDie(tools, operation.id, at);
      expect(await run(tools, operation.id)).toBe("not_claimed");
      await endLease(operation.id);
      expect(await fixture.db.fleet.journal.unclaimed(100, "local")).toContainEqual(
        expect.objectContaining({ id: operation.id }),
      );
      expect(await run(tools, operation.id)).toBe("succeeded");
      const { operation: done, cluster } = await look(operation);
      expect(cluster.phase).toBe("RUNNING");
      expect(done.attempt).toBe(2);
      expect(new Set(tools.driver.effects).size).toBe(tools.driver.effects.length);
      const events = await fixture.db.operations.events(operation.id, 0, 100);
      expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
      expect(events.filter((event) => event.kind === "operation.succeeded")).toHaveLength(1);
    },
  );

  test("after the broker of a finished step has died too: the step runs again", async () => {
    const tools = newTools(fixture.db);
    const { cluster, operation } = await askForCluster(fixture);
    await runAndDie(tools, operation.id, "wait");
    tools.driver.states.set(cluster.id, "stopped");
    await endLease(operation.id);
    expect(await run(tools, operation.id)).toBe("succeeded");
    const started = tools.driver.effects.filter((effect) => effect.startsWith("start"));
    expect(started).toHaveLength(2);
    expect((await look(operation)).operation.steps[4]).toMatchObject({
      name: "start_broker",
      attempt: 2,
    });
  });
});

test("a zombie changes nothing after another worker has taken over", async () => {
  const tools = newTools(fixture.db);
  const { operation } = await askForCluster(fixture);
  let release = () => {};
  const reached = new Promise<void>((resolve) => {
    tools.driver.before = async (effect) => {
      if (effect !== "start") return;
      resolve();
      await new Promise<void>((go) => {
        release = go;
      });
    };
  });
  const zombie = run(tools, operation.id);
  await reached;
  tools.driver.before = async () => {};
  await endLease(operation.id);
  expect(await run(tools, operation.id, { workerId: "second" })).toBe("succeeded");
  const before = await fixture.db.operations.events(operation.id, 0, 100);
  release();
  expect(await zombie).toBe("lost");
  expect(await fixture.db.operations.events(operation.id, 0, 100)).toEqual(before);
});

test("a worker that stops hands the operation back, and the next one has it at once", async () => {
  const tools = newTools(fixture.db);
  const { operation } = await askForCluster(fixture);
  const stop = new AbortController();
  tools.driver.before = async (effect) => {
    if (effect === "start") stop.abort();
  };
  expect(await run(tools, operation.id, { signal: stop.signal })).toBe("handed_back");
  expect((await look(operation)).operation).toMatchObject({ phase: "RUNNING", done: false });
  expect(await run(tools, operation.id)).toBe("succeeded");
});

describe("a step that fails", () => {
  test("is tried again where that may help", async () => {
    let tries = 0;
    const tools = newTools(fixture.db, {
      smokeCheck: async () => {
        tries += 1;
        if (tries < 3) throw new BrokerError("unreachable", "not yet");
      },
    });
    const { operation } = await askForCluster(fixture);
    expect(await run(tools, operation.id)).toBe("succeeded");
    expect(tries).toBe(3);
  });

  test("ends the operation with its reason, and leaves no broker behind", async () => {
    const tools = newTools(fixture.db, {
      smokeCheck: async () => {
        throw new BrokerError("smoke_mismatch", "wrote 3 records, read back 2");
      },
    });
    const { cluster, operation } = await askForCluster(fixture);
    expect(await run(tools, operation.id)).toBe("failed");
    const failed = await look(operation);
    expect(failed.operation).toMatchObject({
      phase: "FAILED",
      done: true,
      error: {
        code: "broker_unavailable",
        step: "smoke_check",
        message: expect.stringContaining("read back 2"),
      },
    });
    expect(failed.cluster.phase).toBe("FAILED");
    expect(failed.cluster.conditions[0]?.message).toContain("read back 2");
    expect(tools.driver.states.get(cluster.id)).toBe("stopped");
    expect(failed.operation.steps.at(-1)?.state).toBe("PENDING");

    const deletion = await askForDeletion(cluster);
    expect(await run(tools, deletion.id)).toBe("succeeded");
    expect((await look(deletion)).cluster.phase).toBe("DELETED");
  });

  test("shows the end of the broker's log, and nothing of a fault that we did not foresee", async () => {
    const died = newTools(fixture.db);
    died.driver.before = async (effect) => {
      if (effect === "start") {
        throw new ProvisionError("stop_failed", "the broker does not stop", { detail: "its log" });
      }
    };
    const first = await askForCluster(fixture);
    await run(died, first.operation.id);
    expect((await look(first.operation)).operation.error).toMatchObject({
      code: "provisioning_failed",
      message: expect.stringContaining("its log"),
    });

    const broken = newTools(fixture.db, {
      smokeCheck: async () => {
        throw new TypeError("secret of the inside");
      },
    });
    const second = await askForCluster(fixture);
    await run(broken, second.operation.id);
    const { error } = (await look(second.operation)).operation;
    expect(error?.code).toBe("internal");
    expect(error?.message).not.toContain("secret");
  });
});
