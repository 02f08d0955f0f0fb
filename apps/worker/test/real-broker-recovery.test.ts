/** A broker that lost its data is recovered by the operation, with the shipped worker, driver and broker. */
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { BrokerError } from "@millrace/broker-admin";
import {
  approveOperation,
  coreOf,
  createCore,
  getOperationPlan,
  recoverCluster,
} from "@millrace/core";
import { bootstrapServers, type Cluster, type RecoveryReport } from "@millrace/domain";
import { describe, expect, test } from "vitest";
import { BUSY_MS_MAX, eventually, installation } from "./fixture.ts";
import { adminHttp, brokerBin, consume, produce } from "./real-broker.ts";

const TIMEOUT_MS = 240_000;
const TOPIC = "orders";
const RECORDS = 500;

const it = installation();

/** Kills the cluster's broker and removes files of its folder before it is started again. */
async function lose({ id }: Cluster, ...files: string[]): Promise<void> {
  it.killBrokers(id);
  const folder = join(it.home, "clusters", id);
  for (const file of files) {
    const [part = "", prefix = ""] = file.split("/");
    const lost = readdirSync(join(folder, part)).filter((name) => name.startsWith(prefix));
    for (const name of lost) rmSync(join(folder, part, name), { recursive: true });
  }
  await it.waitForPhase({ id } as Cluster, "DEGRADED");
}

async function unasked(): Promise<never> {
  throw new BrokerError("unreachable", "recoveries ask no broker");
}

/** Plans the recovery, approves the plan, and waits until the cluster serves. */
async function recover(cluster: Cluster): Promise<RecoveryReport> {
  const parts = createCore({
    db: it.db,
    secret: "a secret of the tests, long enough",
    brokerHttp: unasked,
    drivers: {
      local: undefined as never,
      awsPlanner: undefined,
      localAvailable: true,
      awsRegion: undefined,
    },
  });
  const core = coreOf(parts, it.organizationId);
  const principal = {
    organizationId: cluster.organizationId,
    role: "owner",
    userId: "usr_01JD0000000000000000000000",
    apiKeyId: undefined,
  } as const;
  const { id } = await recoverCluster(core, principal, { clusterId: cluster.id });
  const waiting = await eventually(BUSY_MS_MAX, "the recovery is planned", async () => {
    const operation = await it.operation(cluster, id);
    return operation.done || operation.phase === "WAITING" ? operation : undefined;
  });
  expect(waiting).toMatchObject({ phase: "WAITING", error: undefined });
  const { plan } = await getOperationPlan(core, principal, id);
  await approveOperation(core, principal, { operationId: id, digest: plan.digest });
  const recovered = await it.waitForOperation(cluster, id);
  expect(recovered).toMatchObject({ phase: "SUCCEEDED", error: undefined });
  await it.waitForPhase(cluster, "RUNNING");
  if (plan.recovery === undefined) throw new Error("the plan has no recovery report");
  return plan.recovery;
}

describe.skipIf(brokerBin === undefined)("with the real broker", () => {
  test("a cluster that lost its metadata, and then all but its bucket, is recovered", {
    timeout: TIMEOUT_MS,
  }, async () => {
    await it.startProduct({ stopBrokers: true, brokerBin: brokerBin ?? "" });
    const { cluster: asked, operation } = await it.requestCluster("lost");
    await it.waitForOperation(asked, operation.id);
    const cluster = await it.waitForPhase(asked, "RUNNING");
    const address = bootstrapServers(cluster) ?? "";
    const { topics } = await adminHttp(it.home, cluster);
    await topics.create({ name: TOPIC, partitions: 2, configs: {} });
    await produce(address, TOPIC, RECORDS);

    await lose(cluster, "data/meta.db");
    const withLog = await recover(cluster);
    expect(withLog).toMatchObject({ source: "bucket+wal", missing: [], missingPartitions: 0 });
    // Every record is read again, or this does not end.
    await consume(address, TOPIC, RECORDS);

    await lose(cluster, "data/meta.db", "wal/");
    const fromBucket = await recover(cluster);
    expect(fromBucket.source).toBe("bucket");
    // Only the report says how much of the log was uploaded by then.
    const known = fromBucket.missing.filter(({ topic }) => topic === TOPIC);
    for (const { fromOffset, toOffset } of known) {
      expect(BigInt(toOffset)).toBeLessThanOrEqual(BigInt(RECORDS / 2));
      expect(BigInt(fromOffset)).toBeLessThan(BigInt(toOffset));
    }
    expect(await topics.names()).toContain(TOPIC);
    await produce(address, TOPIC, 10);
  });
});
