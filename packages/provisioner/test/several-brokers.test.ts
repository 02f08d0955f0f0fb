/** The local driver and clusters of several brokers; fake-broker.mjs plays the brokers. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BrokerHttp } from "@millrace/broker-admin";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type ClusterDeployment,
  LocalDriver,
  type MetadataDatabases,
  type RunOptions,
} from "../src/index.ts";
import { systemProcessTable } from "../src/local/process-table.ts";
import { LOCAL_DEPLOYMENT } from "./deployment.ts";

const FAKE_BROKER = join(import.meta.dirname, "fake-broker.mjs");
const ID = "clu_several";
const table = systemProcessTable();

let home: string;
let driver: LocalDriver;
let databases: string[];

const metadata: MetadataDatabases = {
  async ensure(clusterId) {
    if (!databases.includes(clusterId)) databases.push(clusterId);
  },
  async drop(clusterId) {
    databases = databases.filter((id) => id !== clusterId);
  },
  urlOf: (clusterId, password) => `postgres://${clusterId}:${password}@127.0.0.1:1/metadata`,
};

function newDriver(options: { metadata?: MetadataDatabases } = { metadata }): LocalDriver {
  return new LocalDriver({
    home,
    program: {
      command: [process.execPath, FAKE_BROKER],
      environment: { PATH: process.env.PATH ?? "" },
    },
    portsOfSeveral: { kafkaFirst: 29_000, adminFirst: 29_500, tlsFirst: 30_000, count: 50 },
    ...options,
  });
}

async function deployment(
  brokers: number,
  properties: Record<string, string> = {},
): Promise<ClusterDeployment> {
  const placement = await driver.allocate(ID, [], brokers);
  return { ...LOCAL_DEPLOYMENT, clusterId: ID, brokers, placement, properties };
}

/** Prepared, started and ready. */
async function running(brokers: number, properties: Record<string, string> = {}) {
  const wanted = await deployment(brokers, properties);
  await driver.prepare(wanted);
  await driver.ensureRunning(wanted);
  await driver.waitReady(wanted);
  return wanted;
}

function folderOf(brokerId: number): string {
  return join(home, "clusters", ID, `broker-${brokerId}`);
}

function pidOf(brokerId: number): number | undefined {
  const config = join(folderOf(brokerId), "server.properties");
  return table.findByArguments(["broker", "--config", config])[0]?.pid;
}

function pids(brokers: number): (number | undefined)[] {
  return Array.from({ length: brokers }, (_, index) => pidOf(index + 1));
}

/** Applies the deployment; the lines of its log. */
async function apply(wanted: ClusterDeployment, options: RunOptions = {}): Promise<string[]> {
  const lines: string[] = [];
  const { id } = await driver.plan(wanted, { purpose: "apply" });
  await driver.apply(wanted, id, { onEvent: ({ message }) => lines.push(message), ...options });
  return lines;
}

async function membersOf(wanted: ClusterDeployment) {
  const { members } = await new BrokerHttp(await driver.access(wanted)).cluster();
  return members.map(({ brokerId, state }) => `${brokerId} ${state}`);
}

function kill(brokerId: number): void {
  const pid = pidOf(brokerId);
  if (pid !== undefined) process.kill(pid, "SIGKILL");
}

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "millrace-several-"));
  databases = [];
  driver = newDriver();
});

afterEach(async () => {
  for (const brokerId of [1, 2, 3, 4, 5, 6, 7, 8, 9]) kill(brokerId);
  await rm(home, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
});

describe("a cluster of three brokers", () => {
  test("starts, is found by another driver, stops, and leaves nothing when it is destroyed", async () => {
    const wanted = await deployment(3);
    expect(await driver.observe(wanted)).toBe("absent");
    await driver.prepare(wanted);
    expect(databases).toEqual([ID]);
    expect(await driver.isPrepared(wanted)).toBe(true);
    expect(await driver.observe(wanted)).toBe("stopped");
    await driver.ensureRunning(wanted);
    await driver.waitReady(wanted);
    expect(await driver.observe(wanted)).toBe("ready");
    expect(await membersOf(wanted)).toEqual(["1 active", "2 active", "3 active"]);

    const before = pids(3);
    expect(new Set(before).size).toBe(3);
    const other = newDriver();
    await other.ensureRunning(wanted);
    expect(pids(3)).toEqual(before);
    await other.stop(ID);
    expect(await driver.observe(wanted)).toBe("stopped");
    expect(pids(3)).toEqual([undefined, undefined, undefined]);

    await driver.ensureRunning(wanted);
    await driver.destroy(ID);
    expect([await driver.isDestroyed(ID), databases]).toEqual([true, []]);
    expect(pids(3)).toEqual([undefined, undefined, undefined]);
  });

  test("has one address for all brokers, and one of its own for each", async () => {
    const wanted = await running(3);
    const { kafkaPort, tlsPort = 0, adminPort = 0 } = wanted.placement;
    const { kafka } = await driver.access(wanted);
    const addresses = [0, 1, 2].map((index) => `127.0.0.1:${tlsPort + index}`);
    expect(await kafka()).toMatchObject({ bootstrapServers: addresses.join(",") });
    expect((await driver.access(wanted, 3)).adminUrl).toBe(`http://127.0.0.1:${adminPort + 2}`);
    expect(readFileSync(join(folderOf(2), "server.properties"), "utf8")).toContain(
      `PLAINTEXT://127.0.0.1:${kafkaPort + 1}`,
    );
  });

  test("a broker that died is seen, and started alone", async () => {
    const wanted = await running(3);
    const before = pids(3);
    kill(2);
    await expect.poll(() => driver.observe(wanted, 2), { timeout: 30_000 }).toBe("stopped");
    expect([await driver.observe(wanted), await driver.observe(wanted, 1)]).toEqual([
      "partial",
      "ready",
    ]);
    expect(await driver.lastExit(ID, 2)).toMatchObject({ code: undefined });
    await driver.ensureRunning(wanted, { brokerId: 2 });
    await driver.waitReady(wanted);
    expect(pids(3).map((pid, index) => pid === before[index])).toEqual([true, false, true]);
  });

  test("cannot be made without a metadata database", async () => {
    const without = newDriver({});
    await expect(without.prepare(await deployment(3))).rejects.toMatchObject({
      code: "unconfigured",
    });
  });

  test("is not recovered from a bucket: its metadata is in PostgreSQL", async () => {
    const wanted = await deployment(3);
    await expect(driver.plan(wanted, { purpose: "recover" })).rejects.toMatchObject({
      code: "not_recoverable",
    });
  });
});

describe("a change that needs restarts", () => {
  test("restarts one broker at a time", async () => {
    const wanted = await running(3, { "fake.version": "old" });
    const before = pids(3);
    const changed = { ...wanted, properties: { "fake.version": "new" } };
    const lines = await apply(changed);
    expect(lines).toEqual([
      ...["restarting broker 1 (1 of 3)", "broker 1 serves"],
      ...["restarting broker 2 (2 of 3)", "broker 2 serves"],
      ...["restarting broker 3 (3 of 3)", "broker 3 serves"],
    ]);
    expect(pids(3).some((pid, index) => pid === before[index])).toBe(false);
    for (const brokerId of [1, 2, 3]) {
      const { version } = await new BrokerHttp(await driver.access(changed, brokerId)).status();
      expect(version).toBe("new");
    }
    expect(await apply(changed)).toEqual([]);
  });

  test("stops at the first broker that does not come back, and leaves the others as they are", async () => {
    const wanted = await running(3);
    const before = pids(3);
    const changed = { ...wanted, properties: { "fake.exit.code": "3" } };
    await expect(apply(changed)).rejects.toMatchObject({
      code: "start_failed",
      message: "the process of broker 1 ended",
    });
    expect(pids(3)).toEqual([undefined, before[1], before[2]]);
    // The next attempt touches nobody either, while broker 1 does not serve.
    await expect(apply(changed)).rejects.toMatchObject({ code: "start_failed" });
    expect(pids(3)).toEqual([undefined, before[1], before[2]]);
    await apply(wanted);
    expect(await driver.observe(wanted)).toBe("ready");
  });

  test("is not begun while another broker does not serve", async () => {
    const wanted = await running(3, { "fake.version": "old" });
    kill(3);
    const before = pidOf(1);
    await expect(driver.restart(wanted, { brokerId: 1 })).rejects.toMatchObject({
      code: "start_failed",
      message: "the process of broker 3 ended",
    });
    expect(pidOf(1)).toBe(before);
  });
});

test("one broker is restarted, the others go on", async () => {
  const wanted = await running(2);
  const before = pids(2);
  await driver.restart(wanted, { brokerId: 2 });
  expect(pidOf(1)).toBe(before[0]);
  expect([pidOf(2) === before[1], await driver.observe(wanted)]).toEqual([false, "ready"]);
  await expect(driver.restart(wanted, { brokerId: 5 })).rejects.toMatchObject({
    code: "not_prepared",
  });
});

describe("scaling", () => {
  test("out starts new brokers and leaves the others alone", async () => {
    const wanted = await running(2);
    const before = pids(2);
    const scaled = { ...wanted, brokers: 4 };
    expect(await apply(scaled)).toEqual(["starting broker 3", "starting broker 4"]);
    expect(pids(2)).toEqual(before);
    expect(await driver.observe(scaled)).toBe("ready");
    expect(await membersOf(scaled)).toHaveLength(4);
  });

  test("in drains and removes the highest ids; scaling out again brings them back", async () => {
    const wanted = await running(4);
    const scaled = { ...wanted, brokers: 2 };
    expect(await apply(scaled)).toEqual([
      ...["moving the partitions of broker 4 to the others", "stopping broker 4"],
      ...["moving the partitions of broker 3 to the others", "stopping broker 3"],
    ]);
    expect([pidOf(3), pidOf(4)]).toEqual([undefined, undefined]);
    expect([existsSync(folderOf(3)), existsSync(folderOf(4))]).toEqual([false, false]);
    expect(await membersOf(scaled)).toEqual(["1 active", "2 active", "3 left", "4 left"]);
    expect(await driver.observe(scaled)).toBe("ready");
    await apply({ ...scaled, brokers: 3 });
    expect(await membersOf(scaled)).toEqual(["1 active", "2 active", "3 active", "4 left"]);
  });

  test("in keeps everything of a broker whose log nobody has taken over", async () => {
    const wanted = await running(3, { "fake.leaves": "fenced" });
    const scaled = { ...wanted, brokers: 2 };
    const abort = new AbortController();
    const attempt = apply(scaled, {
      signal: abort.signal,
      onEvent: ({ message }) => {
        if (!message.startsWith("stopping")) return;
        const gone = expect.poll(() => pidOf(3), { timeout: 30_000 }).toBeUndefined();
        void gone.then(() => abort.abort());
      },
    });
    await expect(attempt).rejects.toMatchObject({ code: "aborted" });
    expect([pidOf(3), existsSync(folderOf(3))]).toEqual([undefined, true]);
    const plan = await driver.plan(scaled, { purpose: "apply" });
    expect(plan.changes.map(({ address }) => address)).toEqual(["broker-3/folder"]);
    // The others have taken it over.
    const file = join(home, "clusters", ID, "objects", "members", "3.json");
    const member = JSON.parse(readFileSync(file, "utf8"));
    writeFileSync(file, JSON.stringify({ ...member, state: "left" }));
    await apply(scaled);
    expect(existsSync(folderOf(3))).toBe(false);
  });
});

test("a folder that is no broker's is left out", async () => {
  await running(2);
  mkdirSync(join(home, "clusters", ID, "broker-10"));
  await driver.stop(ID);
  expect(pids(2)).toEqual([undefined, undefined]);
});
