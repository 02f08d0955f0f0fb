/** Clusters of several real brokers: the local driver, the broker program and a PostgreSQL. */
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { BrokerHttp } from "@millrace/broker-admin";
import { withEmptyServer } from "@millrace/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ClusterDeployment, LocalDriver, PostgresMetadataDatabases } from "../src/index.ts";
import { LOCAL_DEPLOYMENT } from "./deployment.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const CANDIDATES = [
  process.env.MILLRACE_BROKER_BIN,
  join(ROOT, "dataplane/target/release/millrace"),
  join(ROOT, "dataplane/target/debug/millrace"),
];
const program = CANDIDATES.find((path) => path !== undefined && existsSync(path));
const ID = "clu_real_several";
const MIB = 1024 ** 2;
const TIMEOUT_MS = 240_000;

describe.skipIf(program === undefined)("several real brokers", () => {
  let home: string;
  let postgres: Awaited<ReturnType<typeof withEmptyServer>>;
  let driver: LocalDriver;
  let wanted: ClusterDeployment;

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), "millrace-real-"));
    postgres = await withEmptyServer();
    driver = new LocalDriver({
      home,
      program: { command: [program ?? ""], environment: { PATH: process.env.PATH ?? "" } },
      portsOfSeveral: { kafkaFirst: 30_500, adminFirst: 31_000, tlsFirst: 31_500, count: 50 },
      metadata: new PostgresMetadataDatabases(postgres.url),
    });
    wanted = {
      ...LOCAL_DEPLOYMENT,
      ...{ clusterId: ID, brokers: 3, placement: await driver.allocate(ID, [], 3) },
      walCapacityBytes: 64 * MIB,
      properties: {
        "s3.wal.cache.size": String(64 * MIB),
        "s3.wal.upload.threshold": String(16 * MIB),
        "s3.block.cache.size": String(32 * MIB),
        "offsets.topic.num.partitions": "4",
      },
    };
  }, TIMEOUT_MS);

  afterAll(async () => {
    await driver.destroy(ID);
    await postgres.stop();
    await rm(home, { recursive: true, force: true });
  }, TIMEOUT_MS);

  async function members() {
    const { members } = await new BrokerHttp(await driver.access(wanted)).cluster();
    return members.map(({ brokerId, state, rack }) => `${brokerId} ${state} ${rack}`);
  }

  async function led() {
    const { members } = await new BrokerHttp(await driver.access(wanted)).cluster();
    return members.reduce((sum, { leaders }) => sum + leaders, 0);
  }

  async function scaleTo(brokers: number) {
    wanted = { ...wanted, brokers };
    const { id } = await driver.plan(wanted, { purpose: "apply" });
    await driver.apply(wanted, id);
  }

  test(
    "join one cluster, are restarted, added and removed, and come back from a pause",
    async () => {
      await driver.prepare(wanted);
      await driver.ensureRunning(wanted);
      await driver.waitReady(wanted);
      expect(await members()).toEqual(["1 active local-a", "2 active local-b", "3 active local-c"]);
      const { topics } = new BrokerHttp(await driver.access(wanted, 2));
      await topics.create({ name: "orders", partitions: 6, configs: {} });
      await expect.poll(led, { timeout: 30_000 }).toBeGreaterThanOrEqual(6);
      const partitions = await led();

      await driver.restart(wanted, { brokerId: 2 });
      expect(await members()).toContain("2 active local-b");
      await scaleTo(4);
      expect(await members()).toContain("4 active local-a");
      await scaleTo(2);
      expect(await members()).toEqual(
        expect.arrayContaining(["1 active local-a", "2 active local-b", "3 left local-c"]),
      );
      expect(existsSync(join(home, "clusters", ID, "broker-3"))).toBe(false);
      expect(await led()).toBe(partitions);

      await driver.stop(ID);
      expect(await driver.observe(wanted)).toBe("stopped");
      await driver.ensureRunning(wanted);
      await driver.waitReady(wanted);
      await expect.poll(led, { timeout: 60_000 }).toBe(partitions);
    },
    TIMEOUT_MS,
  );
});
