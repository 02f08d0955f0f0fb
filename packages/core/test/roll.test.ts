/** A change reaches brokers that serve while they are changed, wherever they run. */
import type { Cluster } from "@millrace/domain";
import { type ClusterDeployment, ClusterDrivers } from "@millrace/provisioner";
import { expect, test } from "vitest";
import { reconcileCluster, runOperation } from "../src/index.ts";
import { FakeDriver } from "./fake-driver.ts";
import { coreFixture, coreFor, drivers, newTools, unreachable } from "./fixture.ts";

const fixture = coreFixture();

/** Its machines serve on as they began; only waiting replaces those that began otherwise. */
class RollingDriver extends FakeDriver {
  override readonly capabilities = { ...new FakeDriver().capabilities, startsBrokers: false };
  readonly began = new Map<string, string>();

  override async waitReady(deployment: ClusterDeployment): Promise<void> {
    await super.waitReady(deployment);
    this.began.set(deployment.clusterId, deployment.size);
  }
}

async function runningOnAws(driver: RollingDriver): Promise<Cluster> {
  const { db, principal } = fixture;
  const { organizationId } = principal;
  const [environment] = (await db.organizations.environments(organizationId, { limit: 1 })).items;
  const { id } = await db.clusters.create({
    ...{ organizationId, environmentId: environment!.id, name: "remote", labels: {} },
    ...{ region: "eu-central-1", size: "dev", conditions: [] },
  });
  await db.clusters.recordPlacement(id, await driver.allocate(id, []));
  await db.clusters.changePhase(id, { to: "RUNNING", observed: true });
  driver.states.set(id, "ready");
  driver.began.set(id, "smaller");
  return (await db.clusters.load(id))!;
}

test("instances that are ready but began with an older template are replaced", async () => {
  const { db } = fixture;
  const driver = new RollingDriver();
  const local = new FakeDriver();
  const tools = newTools(db, { drivers: new ClusterDrivers({ local, aws: driver }) });
  const cluster = await runningOnAws(driver);
  const core = coreFor(fixture, { ...unreachable, drivers });
  const target = { clusterId: cluster.id };
  const operation = await reconcileCluster(core, fixture.principal, target);
  const { signal } = new AbortController();
  const options = { workerId: "w", signal, retryDelayMs: 1 };
  expect(await runOperation(tools, operation.id, options)).toBe("succeeded");
  expect(driver.began.get(cluster.id)).toBe(cluster.size);
});
