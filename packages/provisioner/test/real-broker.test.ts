/** The local driver and the admin clients against the real broker program. */
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect as connectPlaintext } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { connect } from "node:tls";
import { BrokerHttp, smokeCheck } from "@millrace/broker-admin";
import type { BenchmarkLoad } from "@millrace/domain";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  type ClusterDeployment,
  LocalDriver,
  ProvisionError,
  plaintextAddress,
} from "../src/index.ts";
import { systemProcessTable } from "../src/local/process-table.ts";
import { LOCAL_DEPLOYMENT } from "./deployment.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const CANDIDATES = [
  process.env.MILLRACE_BROKER_BIN,
  join(ROOT, "dataplane/target/release/millrace"),
  join(ROOT, "dataplane/target/debug/millrace"),
];
const program = CANDIDATES.find((path) => path !== undefined && existsSync(path));
/** Where the broker's pages are listed. */
const ROUTER = "dataplane/crates/millrace-broker/src/admin/mod.rs";
const MIB = 1024 ** 2;
const TIMEOUT_MS = 60_000;

describe.skipIf(program === undefined)("the real broker", () => {
  let home: string;
  let driver: LocalDriver;
  let deployment: ClusterDeployment;

  const open = async () => {
    // A space in the path, as macOS likes them.
    home = await mkdtemp(join(tmpdir(), "millrace real "));
    driver = new LocalDriver({
      home,
      program: { command: [program ?? ""], environment: { PATH: process.env.PATH ?? "" } },
      ports: { kafkaFirst: 25_000, adminFirst: 25_500, tlsFirst: 28_500, count: 500 },
    });
    deployment = {
      ...LOCAL_DEPLOYMENT,
      clusterId: "clu_real",
      placement: await driver.allocate("clu_real", [], 1),
      walCapacityBytes: 64 * MIB,
      properties: {
        "s3.wal.cache.size": String(64 * MIB),
        "s3.wal.upload.threshold": String(16 * MIB),
        "s3.block.cache.size": String(32 * MIB),
        "offsets.topic.num.partitions": "4",
      },
    };
    await driver.prepare(deployment);
    await driver.ensureRunning(deployment);
    await driver.waitReady(deployment).catch((error: unknown) => {
      throw error instanceof ProvisionError
        ? new Error(`${error.message}\n${error.detail}`)
        : error;
    });
  };
  const close = async () => {
    await driver?.destroy("clu_real");
    await rm(home, { recursive: true, force: true });
  };

  beforeAll(open, TIMEOUT_MS);
  // A second try does not find what the first left.
  beforeEach(async ({ task }) => {
    if ((task.result?.retryCount ?? 0) === 0) return;
    await close();
    await open();
  }, TIMEOUT_MS);
  afterAll(close, TIMEOUT_MS);

  const broker = async () => new BrokerHttp(await driver.access(deployment));

  test("passes the smoke check and keeps nothing of it", { timeout: TIMEOUT_MS }, async () => {
    const http = await broker();
    await http.topics.create({ name: "__millrace_smoke_left", partitions: 1, configs: {} });
    await smokeCheck(http);
    const names = await http.topics.names({ includeInternal: true });
    expect(names.filter((name) => name.includes("smoke"))).toEqual([]);
  });

  test("answers about itself, and refuses a wrong token", async () => {
    const access = await driver.access(deployment);
    expect((await new BrokerHttp(access).status()).clusterId).toBe("clu_real");
    const samples = await new BrokerHttp(access).metrics();
    const produced = samples.filter(
      ({ name, labels }) =>
        name === "millrace_request_seconds_bucket" && labels.api?.toLowerCase() === "produce",
    );
    expect(produced.find(({ labels }) => labels.le === "+Inf")?.value).toBeGreaterThan(0);
    const stranger = new BrokerHttp({ ...access, adminToken: "0".repeat(64) });
    await expect(stranger.status()).rejects.toMatchObject({ code: "unauthorized" });
  });

  test("every page but the health checks needs the token, and every answer names the broker", async () => {
    const { adminUrl, adminToken } = await driver.access(deployment);
    const router = await readFile(join(ROOT, ROUTER), "utf8");
    const pages = [...router.matchAll(/\.route\(\s*"([^"]+)"/g)].map(([, path = ""]) => path);
    expect(pages).toEqual(expect.arrayContaining(["/metrics", "/v1/acls", "/v1/topics/{topic}"]));
    const ask = async (path: string, method: string, token?: string) => {
      const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
      const url = adminUrl + path.replace(/\{\w+\}/g, "none");
      const { status, headers, body } = await fetch(url, { method, headers: authorization });
      await body?.cancel();
      const ids = [headers.get("millrace-cluster"), headers.get("millrace-broker")];
      expect(ids, `${method} ${path}`).toEqual(["clu_real", "0"]);
      return status;
    };
    const health = ["/healthz", "/readyz"];
    for (const path of pages.filter((page) => !health.includes(page))) {
      for (const method of ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]) {
        expect(await ask(path, method), `${method} ${path}`).toBe(401);
        expect(await ask(path, method, "0".repeat(64)), `${method} ${path}`).toBe(401);
      }
      expect(await ask(path, "GET", adminToken), path).not.toBe(401);
    }
    for (const path of health) expect(await ask(path, "GET"), path).toBe(200);
    expect(await ask("/nothing-here", "GET"), "nobody learns what there is").toBe(401);
  });

  test("its TLS listener shows a certificate of this installation, and a renewed one without a restart", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const ca = (await driver.rootCertificate()) ?? "";
    const first = await shownCertificate(deployment, ca);
    expect(await shownCertificate(deployment, ca)).toBe(first);
    await rm(join(home, "clusters", "clu_real", "server.pem"));
    // A new worker looks at the file at once.
    const next = new LocalDriver({ home, program: { command: ["false"], environment: {} } });
    await next.maintain(deployment);
    await expect
      .poll(() => shownCertificate(deployment, ca), { timeout: 30_000, interval: 250 })
      .not.toBe(first);
    await expect(shownCertificate(deployment, undefined)).rejects.toThrow("verify");
  });

  test("creates, describes, lists and deletes topics", { timeout: TIMEOUT_MS }, async () => {
    const { topics } = await broker();
    const configs = { "retention.ms": "3600000" };
    await topics.create({ name: "orders", partitions: 3, configs });
    const described = await topics.describe("orders");
    expect(described).toMatchObject({ name: "orders", partitions: 3, replicationFactor: 1 });
    expect(described.configs["retention.ms"]).toEqual({ value: "3600000", source: "topic" });
    expect(described.configs["cleanup.policy"]).toEqual({ value: "delete", source: "default" });
    const { configs: _, ...listed } = described;
    expect(await topics.list()).toEqual({ topics: [listed], next: undefined });
    const again = topics.create({ name: "orders", partitions: 1, configs: {} });
    await expect(again).rejects.toMatchObject({ code: "topic_exists" });
    const bad = topics.create({ name: "no spaces", partitions: 1, configs: {} });
    await expect(bad).rejects.toMatchObject({ code: "invalid_topic_name" });
    const none = topics.create({ name: "none", partitions: 0, configs: {} });
    await expect(none).rejects.toMatchObject({ code: "invalid_partitions" });
    await expect(topics.describe("nope")).rejects.toMatchObject({ code: "topic_not_found" });
    await expect(topics.delete("nope")).rejects.toMatchObject({ code: "topic_not_found" });
    await topics.delete("orders");
    expect(await topics.names()).toEqual([]);
  });

  test("changes a topic's settings and adds partitions, after asking", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const { topics } = await broker();
    await topics.create({ name: "grown", partitions: 1, configs: { "retention.ms": "1000" } });
    const asked = { configs: { "retention.ms": "2000" }, partitions: 4 };
    await topics.change("grown", asked, { validateOnly: true });
    const before = await topics.describe("grown");
    expect(before.partitions).toBe(1);
    expect(before.configs["retention.ms"]?.value).toBe("1000");
    const configs = { "retention.ms": null, "cleanup.policy": "compact" };
    await topics.change("grown", { configs, partitions: 4 });
    const changed = await topics.describe("grown");
    expect(changed.partitions).toBe(4);
    expect(changed.configs["retention.ms"]?.source).toBe("default");
    expect(changed.configs["cleanup.policy"]).toEqual({ value: "compact", source: "topic" });
    const fewer = topics.change("grown", { partitions: 2 });
    await expect(fewer).rejects.toMatchObject({ code: "invalid_partitions" });
    const bad = topics.change("grown", { configs: { "retention.ms": "soon" } });
    await expect(bad).rejects.toMatchObject({ code: "invalid_config" });
    await topics.create({ name: "plain", partitions: 1, configs: {} });
    const first = await topics.listDescribed({ limit: 1 });
    expect([first.topics.map(({ name }) => name), first.next]).toEqual([["grown"], "grown"]);
    const second = await topics.listDescribed({ limit: 1, after: "grown" });
    expect([second.topics.map(({ name }) => name), second.next]).toEqual([["plain"], undefined]);
    await topics.delete("grown");
    await topics.delete("plain");
  });

  test("comes back with its topics after kill -9", { timeout: TIMEOUT_MS }, async () => {
    const config = join(home, "clusters", "clu_real", "server.properties");
    const pids = () =>
      systemProcessTable()
        .findByArguments(["broker", "--config", config])
        .map(({ pid }) => pid);
    await (await broker()).topics.create({ name: "kept", partitions: 1, configs: {} });
    const [pid] = pids();
    process.kill(pid ?? 0, "SIGKILL");
    await expect.poll(() => driver.observe(deployment), { timeout: 20_000 }).toBe("stopped");
    await driver.ensureRunning(deployment);
    await driver.waitReady(deployment);
    expect(pids()).toHaveLength(1);
    const { topics } = await broker();
    expect(await topics.names()).toEqual(["kept"]);
    await topics.delete("kept");
  });

  test("says why it ended, where a restart may help and where not", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const exitWith = async (properties: Record<string, string>) => {
      await driver.stop("clu_real");
      // A broker may end before it is seen: the start fails then, and the exit says why all the same.
      await driver.ensureRunning({ ...deployment, properties }).catch((error: unknown) => {
        if (!(error instanceof ProvisionError) || error.code !== "start_failed") throw error;
      });
      await expect.poll(() => driver.lastExit("clu_real"), { timeout: 20_000 }).toBeDefined();
      return await driver.lastExit("clu_real");
    };
    const failed = await exitWith({ "test.panic.task": "upload@200" });
    const reason = "the task upload panicked: a test injected this panic";
    expect(failed).toEqual({ code: 79, reason });
    const refused = await exitWith({ "num.partitions": "many" });
    expect(refused).toMatchObject({ code: 78, reason: expect.stringContaining("num.partitions") });
    await driver.ensureRunning(deployment);
    await driver.waitReady(deployment);
    expect(await driver.lastExit("clu_real")).toBeUndefined();
  });

  test("of an earlier version is reached without TLS until its next start", {
    timeout: TIMEOUT_MS,
  }, async () => {
    // As the broker's file was before the control plane had a user.
    const file = join(home, "clusters", "clu_real", "server.properties");
    const text = await readFile(file, "utf8");
    const later = /^(admin\.sasl|delegation)\..*\n/gm;
    expect(text.match(later)).toHaveLength(2);
    await writeFile(file, text.replace(later, ""));
    const before = await (await driver.access(deployment)).kafka();
    expect(before).toEqual(plaintextAddress(deployment.placement));
    await smokeCheck(await broker());
    await driver.stop("clu_real");
    await driver.ensureRunning(deployment);
    await driver.waitReady(deployment);
    expect(await readFile(file, "utf8")).toBe(text);
    const after = await (await driver.access(deployment)).kafka();
    expect(after).toMatchObject({ signIn: { user: "__millrace" } });
    await smokeCheck(await broker());
  });

  test("serves the control plane and nobody without a password once its plaintext listener is off", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const { host, kafkaPort } = deployment.placement;
    const plaintext = async () => {
      const socket = connectPlaintext(kafkaPort, host);
      await once(socket, "connect").finally(() => socket.destroy());
    };
    await plaintext();
    deployment = { ...deployment, plaintextListener: false };
    const { id, changes } = await driver.plan(deployment, { purpose: "apply" });
    expect(changes.find(({ type }) => type === "process")?.action).toBe("replace");
    await driver.apply(deployment, id);
    await driver.waitReady(deployment);
    await expect(plaintext()).rejects.toMatchObject({ code: "ECONNREFUSED" });
    const { kafka } = await driver.access(deployment);
    expect(await kafka()).toMatchObject({ signIn: { user: "__millrace" } });
    const http = await broker();
    await smokeCheck(http);
    const load: BenchmarkLoad = {
      ...{ workload: "produce", topic: "millrace-benchmark-1", partitions: 1 },
      ...{ recordSizeBytes: 100, recordsPerSecond: 100, bytesMax: 1_000_000 },
      ...{ warmUpSeconds: 1, testSeconds: 1 },
    };
    await http.topics.create({ name: load.topic, partitions: 1, configs: {} });
    const { signal } = new AbortController();
    const { produced } = await driver.runLoad(deployment, load, { signal, onSample: () => {} });
    expect(produced?.errors).toBe(0);
    expect(produced?.records).toBeGreaterThan(0);
    await http.topics.delete(load.topic);
  });

  test("drains and ends on a stop", { timeout: TIMEOUT_MS }, async () => {
    await driver.stop("clu_real");
    expect(await driver.observe(deployment)).toBe("stopped");
  });
});

/** Fingerprint of the certificate that a client gets. Fails where it does not trust it. */
async function shownCertificate(
  { placement }: ClusterDeployment,
  ca: string | undefined,
): Promise<string> {
  const { host, tlsPort: port = 0 } = placement;
  return await new Promise((found, failed) => {
    const socket = connect({ host, port, ...(ca !== undefined && { ca }) });
    socket.once("error", failed);
    socket.once("secureConnect", () => {
      found(socket.getPeerCertificate().fingerprint256);
      socket.destroy();
    });
  });
}
