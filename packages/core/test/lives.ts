/** Clusters at points of their lives, for tests of what may happen next. */
import { randomUUID } from "node:crypto";
import type { Cluster, ClusterId, Operation } from "@millrace/domain";
import { ProvisionError } from "@millrace/provisioner";
import { ManualClock } from "@millrace/testkit";
import { createCluster, deleteCluster, runOperation, scheduleOperations } from "../src/index.ts";
import { type CoreFixture, coreFor, drivers, newTools, unreachable } from "./fixture.ts";

export const DAY_MS = 24 * 60 * 60_000;

export function lives(fixture: CoreFixture) {
  const core = () => coreFor(fixture, { ...unreachable, drivers });
  const tools = () => newTools(fixture.db);
  type Tools = ReturnType<typeof tools>;
  /** The same driver serves every region. */
  const toolsEverywhere = (): Tools => {
    const { driver, ...rest } = tools();
    const drivers = { of: () => driver } as unknown as Tools["drivers"];
    return { ...rest, driver, drivers };
  };

  const run = (at: Tools, { id }: Operation) => {
    const { signal } = new AbortController();
    return runOperation(at, id, { workerId: "w", signal, retryDelayMs: 1 });
  };

  async function load({ id }: { id: ClusterId }): Promise<Cluster> {
    const cluster = await fixture.db.clusters.load(id);
    if (!cluster) throw new Error(`no cluster ${id}`);
    return cluster;
  }

  async function operations({ id }: { id: ClusterId }): Promise<readonly Operation[]> {
    const page = { limit: 100 };
    const { organizationId } = fixture.principal;
    return (await fixture.db.operations.list(organizationId, page, { clusterId: id })).items;
  }

  /** The newest of any kind. */
  async function newest(cluster: { id: ClusterId }): Promise<Operation> {
    const [operation] = await operations(cluster);
    if (!operation) throw new Error(`no operation of ${cluster.id}`);
    return operation;
  }

  async function running(at: Tools, name = `c-${randomUUID().slice(0, 8)}`): Promise<Cluster> {
    const input = { name, region: "local", size: "dev" } as const;
    const { operation, cluster } = await createCluster(core(), fixture.principal, input);
    await run(at, operation);
    return load(cluster);
  }

  /** A cluster beyond this machine as the database knows it. */
  async function remote(served: boolean): Promise<Cluster> {
    const { db, principal } = fixture;
    const { organizationId } = principal;
    const page = await db.organizations.environments(organizationId, { limit: 1 });
    const name = `remote-${randomUUID().slice(0, 8)}`;
    const { id } = await db.clusters.create({
      ...{ organizationId, environmentId: page.items[0]!.id, name },
      ...{ region: "eu-central-1", size: "dev", labels: {}, conditions: [] },
    });
    if (served) {
      const placement = { host: name, kafkaPort: 9092, adminPort: 8082 };
      await db.clusters.recordPlacement(id, placement);
      await db.clusters.changePhase(id, { to: "RUNNING", observed: true });
    } else {
      await db.clusters.changePhase(id, { to: "FAILED" });
    }
    return load({ id });
  }

  async function deletion(at: Tools, cluster: Cluster, retainDays: number) {
    const input = { clusterId: cluster.id, retainDays };
    const operation = await deleteCluster(core(), fixture.principal, input);
    const result = await run(at, operation);
    return { operation, result, cluster: await load(cluster) };
  }

  /** A cluster whose deletion failed at its first step. */
  async function notDeleted(at: Tools, retainDays: number) {
    const cluster = await running(at);
    refuse(at, "stop");
    const ended = await deletion(at, cluster, retainDays);
    allow(at);
    return ended;
  }

  const schedule = (afterMs: number) =>
    scheduleOperations(
      { db: fixture.db.worker, clock: new ManualClock(new Date(Date.now() + afterMs)) },
      { driftIntervalMs: DAY_MS },
    );

  return {
    ...{ core, tools, toolsEverywhere, run, load, operations, newest },
    ...{ running, remote, deletion, notDeleted, schedule },
  };
}

/** From now on the driver fails to do this. */
export function refuse({ driver }: ReturnType<typeof newTools>, effect: string): void {
  driver.before = async (each) => {
    if (each === effect) throw new ProvisionError("stop_failed", `it does not ${effect}`);
  };
}

export function allow({ driver }: ReturnType<typeof newTools>): void {
  driver.before = async () => {};
}
