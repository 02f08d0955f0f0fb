import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { BrokerHttp } from "@millrace/broker-admin";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ClusterDeployment, LocalDriver, type Placement } from "../src/index.ts";
import { type ProcessTable, systemProcessTable } from "../src/local/process-table.ts";
import { LOCAL_DEPLOYMENT } from "./deployment.ts";

const FAKE_BROKER = join(import.meta.dirname, "fake-broker.mjs");
const table = systemProcessTable();

let home: string;
let driver: LocalDriver;
const clusterIds: string[] = [];

/** Another range than the product's, so that a running installation is not in the way. */
function newDriver(
  command: [string, ...string[]] = [process.execPath, FAKE_BROKER],
  processTable: ProcessTable = table,
): LocalDriver {
  return new LocalDriver({
    ...{ home, processTable },
    program: { command, environment: { PATH: process.env.PATH ?? "" } },
    ports: { kafkaFirst: 23_000, adminFirst: 23_500, tlsFirst: 28_000, count: 500 },
  });
}

async function deployment(
  clusterId: string,
  properties: Record<string, string> = {},
  taken: readonly Placement[] = [],
): Promise<ClusterDeployment> {
  clusterIds.push(clusterId);
  const placement = await driver.allocate(clusterId, taken, 1);
  return { ...LOCAL_DEPLOYMENT, clusterId, placement, properties };
}

function recordedPid(clusterId: string): number {
  return JSON.parse(readFileSync(join(home, "clusters", clusterId, "broker.pid"), "utf8")).pid;
}

function brokersOf(clusterId: string): number[] {
  const config = join(home, "clusters", clusterId, "server.properties");
  return table.findByArguments(["broker", "--config", config]).map((found) => found.pid);
}

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "millrace-driver-"));
  driver = newDriver();
});

afterEach(async () => {
  for (const clusterId of clusterIds.splice(0)) {
    for (const pid of brokersOf(clusterId)) process.kill(pid, "SIGKILL");
  }
  await rm(home, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
});

describe("prepare", () => {
  test("writes configuration and token readable only by the owner, and keeps the token", async () => {
    const wanted = await deployment("clu_a", { "num.partitions": "3" });
    expect(await driver.isPrepared(wanted)).toBe(false);
    await driver.prepare(wanted);
    const folder = join(home, "clusters", "clu_a");
    const { kafkaPort, tlsPort } = wanted.placement;
    const properties = await readFile(join(folder, "server.properties"), "utf8");
    expect(properties).toContain("\nnum.partitions=3\n");
    expect(properties).toContain(
      `\nlisteners=PLAINTEXT://127.0.0.1:${kafkaPort},SASL_SSL://127.0.0.1:${tlsPort}\n`,
    );
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, "server.properties")).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, "admin.token")).mode & 0o777).toBe(0o600);
    const { adminToken } = await driver.access(wanted);
    await driver.prepare(wanted);
    expect((await driver.access(wanted)).adminToken).toBe(adminToken);
    expect(await driver.isPrepared(wanted)).toBe(true);
  });

  test("replaces a token that a crash truncated", async () => {
    const wanted = await deployment("clu_a");
    await driver.prepare(wanted);
    writeFileSync(join(home, "clusters", "clu_a", "admin.token"), "ab");
    expect(await driver.isPrepared(wanted)).toBe(false);
    await driver.prepare(wanted);
    expect((await driver.access(wanted)).adminToken).toMatch(/^[0-9a-f]{64}$/);
  });

  test("rejects a property that the driver sets, and an id that leaves the folder", async () => {
    const wanted = await deployment("clu_a", { "data.dir": "/" });
    await expect(driver.prepare(wanted)).rejects.toThrow("data.dir");
    await expect(driver.stop("../clu_a")).rejects.toThrow("not a cluster id");
  });
});

describe("allocate", () => {
  test("skips assigned ports and ports in use", async () => {
    const first = await driver.allocate("clu_a", [], 1);
    const second = await driver.allocate("clu_a", [first], 1);
    expect(second.kafkaPort).not.toBe(first.kafkaPort);
    const squatter = createServer().listen(second.tlsPort, "127.0.0.1");
    await once(squatter, "listening");
    try {
      const third = await driver.allocate("clu_a", [first], 1);
      expect(third.tlsPort).not.toBe(second.tlsPort);
    } finally {
      squatter.close();
    }
  });

  test("picks an admin port only where no gateway reaches the broker", async () => {
    expect(await driver.allocate("clu_a", [], 1)).toHaveProperty("adminPort");
    const link = { address: "127.0.0.1:4100", url: "http://127.0.0.1:4101", token: "t" };
    const linked = new LocalDriver({
      home,
      program: { command: ["false"], environment: {} },
      link,
    });
    expect(await linked.allocate("clu_a", [], 1)).not.toHaveProperty("adminPort");
  });

  test("clusters of different installations rarely collide", async () => {
    const wide = new LocalDriver({ home, program: { command: ["false"], environment: {} } });
    const ids = Array.from({ length: 8 }, (_, index) => `clu_${index}`);
    const placements = await Promise.all(ids.map((id) => wide.allocate(id, [], 1)));
    expect(new Set(placements.map((placement) => placement.kafkaPort)).size).toBeGreaterThan(6);
  });

  test("fails with an error when every port is taken", async () => {
    const small = new LocalDriver({
      home,
      program: { command: ["false"], environment: {} },
      ports: { kafkaFirst: 23_990, adminFirst: 23_995, tlsFirst: 23_998, count: 1 },
    });
    const only = { host: "127.0.0.1", kafkaPort: 23_990, adminPort: 23_995 };
    await expect(small.allocate("clu_a", [only], 1)).rejects.toMatchObject({
      code: "no_placement",
    });
  });
});

describe("the TLS listener", () => {
  test("comes to a cluster of an earlier version with its next start, and not while it runs", async () => {
    const wanted = await deployment("clu_a");
    const { tlsPort: _, ...placement } = wanted.placement;
    await driver.prepare({ ...wanted, placement });
    await driver.ensureRunning({ ...wanted, placement });
    const folder = join(home, "clusters", "clu_a");
    const properties = () => readFileSync(join(folder, "server.properties"), "utf8");
    await driver.ensureRunning(wanted);
    expect(properties()).not.toContain("SASL_SSL");
    expect(existsSync(join(folder, "server.pem"))).toBe(false);
    const plain = { bootstrapServers: `127.0.0.1:${placement.kafkaPort}` };
    expect(await (await driver.access(wanted)).kafka()).toEqual(plain);
    await driver.stop("clu_a");
    await driver.ensureRunning(wanted);
    expect(await (await driver.access(wanted)).kafka()).toMatchObject({
      bootstrapServers: `127.0.0.1:${wanted.placement.tlsPort}`,
      signIn: { user: "__millrace" },
    });
    expect(properties()).toContain(`,SASL_SSL://127.0.0.1:${wanted.placement.tlsPort}\n`);
    expect(statSync(join(folder, "server.pem")).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(folder, "server.pem"), "utf8")).toMatch(
      /CERTIFICATE[\s\S]*PRIVATE KEY/,
    );
    await driver.waitReady(wanted);
  });
});

describe("a running broker", () => {
  test("starts as it was prepared where the deployment is not approved yet", async () => {
    const wanted = await deployment("clu_a");
    await driver.prepare(wanted);
    const changed = { ...wanted, plaintextListener: !wanted.plaintextListener };
    await driver.ensureRunning(changed, { asPrepared: true });
    expect([await driver.isPrepared(wanted), await driver.isPrepared(changed)]).toEqual([
      true,
      false,
    ]);
    await driver.stop("clu_a");
    await driver.ensureRunning(changed);
    expect(await driver.isPrepared(changed)).toBe(true);
  });

  test("starts, becomes ready, is found by another driver, stops on SIGTERM", async () => {
    const wanted = await deployment("clu_a", { "fake.ready.delay.ms": "300" });
    expect(await driver.observe(wanted)).toBe("absent");
    await driver.prepare(wanted);
    expect(await driver.observe(wanted)).toBe("stopped");
    await driver.ensureRunning(wanted);
    expect(await driver.observe(wanted)).toBe("starting");
    await driver.waitReady(wanted);
    expect(await driver.observe(wanted)).toBe("ready");
    const pid = recordedPid("clu_a");

    const other = newDriver();
    await other.ensureRunning(wanted);
    expect(recordedPid("clu_a")).toBe(pid);
    await other.stop("clu_a");
    expect(await other.observe(wanted)).toBe("stopped");
    expect(brokersOf("clu_a")).toEqual([]);
    const log = readFileSync(join(home, "clusters", "clu_a", "broker.log"), "utf8");
    expect(log).toContain("fake broker stops");
  });

  test("is adopted by its command line when a crash lost the pid file", async () => {
    const wanted = await deployment("clu_a");
    await driver.prepare(wanted);
    await driver.ensureRunning(wanted);
    const pid = recordedPid("clu_a");
    await rm(join(home, "clusters", "clu_a", "broker.pid"));
    const other = newDriver();
    await other.ensureRunning(wanted);
    expect(brokersOf("clu_a")).toEqual([pid]);
    expect(recordedPid("clu_a")).toBe(pid);
  });

  test("ten concurrent starts give one process", async () => {
    const wanted = await deployment("clu_a");
    await driver.prepare(wanted);
    await Promise.all(Array.from({ length: 10 }, () => driver.ensureRunning(wanted)));
    expect(brokersOf("clu_a")).toHaveLength(1);
  });

  test("that ignores SIGTERM is killed after the bounded wait", async () => {
    const wanted = await deployment("clu_a", { "fake.ignore.sigterm": "true" });
    await driver.prepare(wanted);
    await driver.ensureRunning(wanted);
    await driver.waitReady(wanted);
    await driver.stop("clu_a", { timeoutMs: 200 });
    expect(brokersOf("clu_a")).toEqual([]);
  });

  test("writes a log that stays within its bound", async () => {
    const wanted = await deployment("clu_a");
    await driver.prepare(wanted);
    await driver.ensureRunning(wanted);
    await driver.waitReady(wanted);
    const log = join(home, "clusters", "clu_a", "broker.log");
    writeFileSync(log, Buffer.alloc(17 * 1024 * 1024, "x"));
    await driver.maintain(wanted);
    expect(statSync(log).size).toBe(0);
    expect(existsSync(`${log}.1`)).toBe(true);
    await driver.stop("clu_a");
    // Appended at the new beginning: the broker's descriptor did not keep its old position.
    expect(readFileSync(log, "utf8")).toBe("fake broker stops\n");
  });
});

describe("a change that needs a restart", () => {
  async function running() {
    const wanted = await deployment("clu_a", { "fake.version": "old" });
    await driver.prepare(wanted);
    await driver.ensureRunning(wanted);
    await driver.waitReady(wanted);
    const changed = { ...wanted, properties: { "fake.version": "new" } };
    const { id } = await driver.plan(changed, { purpose: "apply" });
    return { wanted, changed, id, pid: recordedPid("clu_a") };
  }

  async function runningVersion(wanted: ClusterDeployment) {
    await driver.waitReady(wanted);
    return (await new BrokerHttp(await driver.access(wanted)).status()).version;
  }

  test("is not lost to a restart of the broker as it was, at any time while it is applied", async () => {
    const { wanted, changed, id, pid } = await running();
    const restarts: Promise<void>[] = [];
    /** The configuration's text at the moment when each process was started. */
    const startedWith = new Map<number, string>();
    const file = join(home, "clusters", "clu_a", "server.properties");
    let isApplying = true;
    // As the supervisor asks for it, which finds the broker stopped: whenever the driver looks for the process.
    driver = newDriver(undefined, {
      find(found) {
        if (!startedWith.has(found)) startedWith.set(found, readFileSync(file, "utf8"));
        if (isApplying) restarts.push(driver.ensureRunning(wanted, { asPrepared: true }));
        return table.find(found);
      },
      findByArguments: (last) => table.findByArguments(last),
      findByArgument: (argument) => table.findByArgument(argument),
      findByCommand: (first, others) => table.findByCommand(first, others),
      findByGroup: (group) => table.findByGroup(group),
    });
    await driver.apply(changed, id);
    isApplying = false;
    await Promise.all(restarts);
    expect(restarts.length).toBeGreaterThan(1);
    expect(recordedPid("clu_a")).not.toBe(pid);
    expect(startedWith.get(recordedPid("clu_a"))).toContain("\nfake.version=new\n");
    expect(await runningVersion(changed)).toBe("new");
    expect(brokersOf("clu_a")).toHaveLength(1);
  });

  test("leaves the broker as it is where the new configuration does not fit on the disk", async () => {
    const { wanted, changed, id, pid } = await running();
    const inTheWay = join(home, "clusters", "clu_a", `server.properties.${process.pid}.new`);
    mkdirSync(inTheWay);
    await expect(driver.apply(changed, id)).rejects.toThrow("EISDIR");
    expect([recordedPid("clu_a"), await driver.observe(wanted)]).toEqual([pid, "ready"]);
    expect(await driver.isPrepared(wanted)).toBe(true);
    rmSync(inTheWay, { recursive: true });
    await driver.apply(changed, id);
    expect(await runningVersion(changed)).toBe("new");
  });

  test("stops the broker when it is only prepared, and a change of live settings does not", async () => {
    const { wanted, changed, pid } = await running();
    const properties = { ...wanted.properties, "s3.block.cache.size": "1048576" };
    const live = { ...wanted, properties };
    await driver.prepare(live);
    expect([recordedPid("clu_a"), await driver.observe(live)]).toEqual([pid, "ready"]);
    await driver.prepare(changed);
    expect(await driver.observe(changed)).toBe("stopped");
    await driver.ensureRunning(changed);
    expect(await runningVersion(changed)).toBe("new");
  });

  test("leaves nothing beside the configuration where stopping the broker is aborted", async () => {
    const { wanted, changed, id } = await running();
    await expect(driver.apply(changed, id, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: "aborted",
    });
    expect(await driver.isPrepared(wanted)).toBe(true);
    const left = await readdir(join(home, "clusters", "clu_a"));
    expect(left.filter((name) => name.endsWith(".new"))).toEqual([]);
  });
});

describe("a recycled pid", () => {
  test("is neither adopted nor killed", async () => {
    const stranger = spawn("sleep", ["60"], { stdio: "ignore" });
    try {
      await once(stranger, "spawn");
      const wanted = await deployment("clu_a");
      await driver.prepare(wanted);
      const pidFile = join(home, "clusters", "clu_a", "broker.pid");
      writeFileSync(pidFile, JSON.stringify({ pid: stranger.pid, startMark: "another life" }));
      expect(await driver.observe(wanted)).toBe("stopped");
      await driver.stop("clu_a");
      expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
      writeFileSync(pidFile, JSON.stringify({ pid: stranger.pid, startMark: "another life" }));
      await driver.ensureRunning(wanted);
      expect(recordedPid("clu_a")).not.toBe(stranger.pid);
      await driver.destroy("clu_a");
      expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
    } finally {
      stranger.kill("SIGKILL");
    }
  });
});

describe("failures", () => {
  test("a broker that ends at once is reported quickly, with the end of its log", async () => {
    const wanted = await deployment("clu_a", { "fake.exit.code": "3" });
    await driver.prepare(wanted);
    await driver.ensureRunning(wanted);
    const started = performance.now();
    await expect(driver.waitReady(wanted)).rejects.toMatchObject({
      code: "start_failed",
      detail: "the fake broker was told to fail",
    });
    expect(performance.now() - started).toBeLessThan(10_000);
  });

  test("waiting for a slow broker ends at the timeout", async () => {
    const wanted = await deployment("clu_a", { "fake.ready.delay.ms": "60000" });
    await driver.prepare(wanted);
    await driver.ensureRunning(wanted);
    await expect(driver.waitReady(wanted, { timeoutMs: 300 })).rejects.toMatchObject({
      code: "not_ready_in_time",
    });
  });

  test("an abort ends the wait", async () => {
    const wanted = await deployment("clu_a", { "fake.ready.delay.ms": "60000" });
    await driver.prepare(wanted);
    await driver.ensureRunning(wanted);
    const abort = new AbortController();
    const waiting = driver.waitReady(wanted, { signal: abort.signal });
    abort.abort();
    await expect(waiting).rejects.toMatchObject({ code: "aborted" });
  });

  test("a program that does not exist", async () => {
    const broken = newDriver(["/nowhere/millrace"]);
    const wanted = await deployment("clu_a");
    await broken.prepare(wanted);
    await expect(broken.ensureRunning(wanted)).rejects.toMatchObject({ code: "start_failed" });
  });

  test("a cluster that was never prepared", async () => {
    const wanted = await deployment("clu_a");
    await expect(driver.ensureRunning(wanted)).rejects.toMatchObject({ code: "not_prepared" });
    await expect(driver.access(wanted)).rejects.toMatchObject({ code: "not_prepared" });
  });
});

describe("destroy", () => {
  test("stops the broker and leaves nothing; repeating it is fine", async () => {
    const wanted = await deployment("clu_a");
    await driver.prepare(wanted);
    await driver.ensureRunning(wanted);
    expect(await driver.list()).toEqual(["clu_a"]);
    expect(await driver.isDestroyed("clu_a")).toBe(false);
    await driver.destroy("clu_a");
    await driver.destroy("clu_a");
    expect(await driver.isDestroyed("clu_a")).toBe(true);
    expect(await driver.list()).toEqual([]);
    expect(brokersOf("clu_a")).toEqual([]);
    await expect(driver.ensureRunning(wanted)).rejects.toMatchObject({ code: "not_prepared" });
  });

  test("reports the destruction first, and destroys nothing if that fails", async () => {
    const wanted = await deployment("clu_a");
    await driver.prepare(wanted);
    const { id } = await driver.plan(wanted, { purpose: "purge" });
    const lost = { onDestroying: () => Promise.reject(new Error("lost")) };
    await expect(driver.destroy("clu_a", lost)).rejects.toThrow("lost");
    await expect(driver.apply(wanted, id, lost)).rejects.toThrow("lost");
    await expect(driver.apply(wanted, "another", lost)).rejects.toMatchObject({
      code: "plan_stale",
    });
    expect(await driver.isDestroyed("clu_a")).toBe(false);
    let said = 0;
    const onDestroying = async () => {
      said += 1;
    };
    await driver.apply(wanted, id, { onDestroying });
    expect([said, await driver.isDestroyed("clu_a")]).toEqual([1, true]);
  });

  test("removes a broker that lost its folder", async () => {
    const wanted = await deployment("clu_a");
    await driver.prepare(wanted);
    await driver.ensureRunning(wanted);
    await driver.waitReady(wanted);
    await rm(join(home, "clusters", "clu_a"), { recursive: true });
    expect(await driver.isDestroyed("clu_a")).toBe(false);
    await driver.destroy("clu_a");
    await sleep(0);
    expect(await driver.isDestroyed("clu_a")).toBe(true);
  });
});

describe("recover", () => {
  const REPORT = {
    ...{ source: "bucket", recovered_to: "2026-11-22T10:00:00Z", topics: 1, partitions: 1 },
    ...{ records_from_wal: "0", bytes_from_wal: "0", missing: [] as object[], warnings: [] },
  };

  async function lost() {
    const report = join(home, "report.json");
    writeFileSync(report, JSON.stringify(REPORT));
    const wanted = await deployment("clu_lost", { "fake.recovery.report": report });
    await driver.prepare(wanted);
    return { wanted, report };
  }

  test("plans without a change, recovers what was planned, and the broker starts", async () => {
    const { wanted } = await lost();
    await driver.ensureRunning(wanted);
    await expect(driver.waitReady(wanted)).rejects.toMatchObject({ code: "start_failed" });
    const plan = await driver.plan(wanted, { purpose: "recover" });
    expect(plan.recovery).toMatchObject({ source: "bucket", missing: [] });
    const metadata = join(home, "clusters", "clu_lost", "data", "meta.db");
    expect(existsSync(metadata)).toBe(false);

    await driver.apply(wanted, plan.id);
    expect(existsSync(metadata)).toBe(true);
    await driver.ensureRunning(wanted);
    await driver.waitReady(wanted);
    // An attempt that was killed after the recovery applies the same plan again.
    await driver.apply(wanted, plan.id);
  });

  test("recovers a second loss, even if the same plan was applied before", async () => {
    const { wanted } = await lost();
    const plan = await driver.plan(wanted, { purpose: "recover" });
    await driver.apply(wanted, plan.id);
    const metadata = join(home, "clusters", "clu_lost", "data", "meta.db");
    rmSync(metadata);
    await driver.apply(wanted, plan.id);
    expect(existsSync(metadata)).toBe(true);
  });

  test("rejects a plan whose loss has changed, and changes nothing", async () => {
    const { wanted, report } = await lost();
    const plan = await driver.plan(wanted, { purpose: "recover" });
    const range = { topic: "orders", partition: 0, from_offset: "1", to_offset: "9" };
    const missing = [{ ...range, acknowledged_by: "2026-11-22T10:00:01Z" }];
    writeFileSync(report, JSON.stringify({ ...REPORT, missing }));
    await expect(driver.apply(wanted, plan.id)).rejects.toMatchObject({ code: "plan_stale" });
    expect(existsSync(join(home, "clusters", "clu_lost", "data", "meta.db"))).toBe(false);
  });

  test("is rejected while a broker runs, and says what to do", async () => {
    const wanted = await deployment("clu_runs");
    await driver.prepare(wanted);
    await expect(driver.plan(wanted, { purpose: "recover" })).rejects.toMatchObject({
      ...{ code: "broker_running", detail: "the folder is in use" },
    });
  });

  test("says that the program is missing", async () => {
    const { wanted } = await lost();
    driver = newDriver([join(home, "nothing-here")]);
    await expect(driver.plan(wanted, { purpose: "recover" })).rejects.toMatchObject({
      code: "unconfigured",
    });
  });
});
