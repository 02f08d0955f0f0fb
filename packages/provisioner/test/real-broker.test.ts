/** The local driver and the admin clients against the real broker program. */
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { connect } from "node:tls";
import { BrokerHttp, type KafkaAdmin, smokeCheck, withKafkaAdmin } from "@millrace/broker-admin";
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
      placement: await driver.allocate("clu_real", []),
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

  /** As the control plane, over TLS. */
  const kafka = async <T>(work: (admin: KafkaAdmin) => Promise<T>) =>
    withKafkaAdmin(await (await driver.access(deployment)).kafka(), work);

  test("passes the smoke check and keeps nothing of it", { timeout: TIMEOUT_MS }, async () => {
    const access = await driver.access(deployment);
    expect(await access.kafka()).toMatchObject({ signIn: { user: "__millrace" } });
    await smokeCheck(await access.kafka());
    const names = await kafka((admin) => admin.topicNames({ includeInternal: true }));
    expect(names.filter((name) => name.includes("smoke"))).toEqual([]);
    expect(await kafka((admin) => admin.listConsumerGroups())).toEqual([]);
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
    await kafka(async (admin) => {
      const configs = { "retention.ms": "3600000" };
      await admin.createTopic({ name: "orders", partitions: 3, configs });
      const described = await admin.describeTopic("orders");
      expect(described).toMatchObject({ name: "orders", partitions: 3, replicationFactor: 1 });
      expect(described.configs["retention.ms"]).toEqual({ value: "3600000", source: "topic" });
      expect(described.configs["cleanup.policy"]).toEqual({ value: "delete", source: "default" });
      expect((await admin.listTopics()).map((topic) => topic.name)).toEqual(["orders"]);
      const again = admin.createTopic({ name: "orders", partitions: 1, configs: {} });
      await expect(again).rejects.toMatchObject({ code: "topic_exists" });
      const bad = admin.createTopic({ name: "no spaces", partitions: 1, configs: {} });
      await expect(bad).rejects.toMatchObject({ code: "invalid_topic_name" });
      const none = admin.createTopic({ name: "none", partitions: 0, configs: {} });
      await expect(none).rejects.toMatchObject({ code: "invalid_partitions" });
      await expect(admin.describeTopic("nope")).rejects.toMatchObject({ code: "topic_not_found" });
      await expect(admin.deleteTopic("nope")).rejects.toMatchObject({ code: "topic_not_found" });
      await admin.deleteTopic("orders");
      expect(await admin.listTopics()).toEqual([]);
    });
  });

  test("changes a topic's settings and adds partitions, after asking", {
    timeout: TIMEOUT_MS,
  }, async () => {
    await kafka(async (admin) => {
      await admin.createTopic({
        name: "grown",
        partitions: 1,
        configs: { "retention.ms": "1000" },
      });
      await admin.alterTopicConfigs("grown", { "retention.ms": "2000" }, { validateOnly: true });
      await admin.createPartitions("grown", 4, { validateOnly: true });
      const asked = await admin.describeTopic("grown");
      expect(asked.partitions).toBe(1);
      expect(asked.configs["retention.ms"]?.value).toBe("1000");
      await admin.alterTopicConfigs("grown", { "retention.ms": null, "cleanup.policy": "compact" });
      await admin.createPartitions("grown", 4);
      const changed = await admin.describeTopic("grown");
      expect(changed.partitions).toBe(4);
      expect(changed.configs["retention.ms"]?.source).toBe("default");
      expect(changed.configs["cleanup.policy"]).toEqual({ value: "compact", source: "topic" });
      const fewer = admin.createPartitions("grown", 2);
      await expect(fewer).rejects.toMatchObject({ code: "invalid_partitions" });
      const bad = admin.alterTopicConfigs("grown", { "retention.ms": "soon" });
      await expect(bad).rejects.toMatchObject({ code: "invalid_config" });
      await admin.createTopic({ name: "plain", partitions: 1, configs: {} });
      const configs = await admin.describeTopicConfigs(["plain", "grown"]);
      expect([...configs.keys()].sort()).toEqual(["grown", "plain"]);
      await admin.deleteTopic("grown");
      await admin.deleteTopic("plain");
    });
  });

  test("comes back with its topics after kill -9", { timeout: TIMEOUT_MS }, async () => {
    const config = join(home, "clusters", "clu_real", "server.properties");
    const pids = () =>
      systemProcessTable()
        .findByArguments(["broker", "--config", config])
        .map(({ pid }) => pid);
    await kafka((admin) => admin.createTopic({ name: "kept", partitions: 1, configs: {} }));
    const [pid] = pids();
    process.kill(pid ?? 0, "SIGKILL");
    await expect.poll(() => driver.observe(deployment), { timeout: 20_000 }).toBe("stopped");
    await driver.ensureRunning(deployment);
    await driver.waitReady(deployment);
    expect(pids()).toHaveLength(1);
    expect((await kafka((admin) => admin.listTopics())).map((topic) => topic.name)).toEqual([
      "kept",
    ]);
    await kafka((admin) => admin.deleteTopic("kept"));
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
    await smokeCheck(before);
    await driver.stop("clu_real");
    await driver.ensureRunning(deployment);
    await driver.waitReady(deployment);
    expect(await readFile(file, "utf8")).toBe(text);
    const after = await (await driver.access(deployment)).kafka();
    expect(after).toMatchObject({ signIn: { user: "__millrace" } });
    await smokeCheck(after);
  });

  test("serves the control plane and nobody without a password once its plaintext listener is off", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const plaintext = plaintextAddress(deployment.placement);
    const topics = () => withKafkaAdmin(plaintext, (admin) => admin.listTopics());
    expect(await topics()).toEqual([]);
    deployment = { ...deployment, plaintextListener: false };
    const { id, changes } = await driver.plan(deployment, { purpose: "apply" });
    expect(changes.find(({ type }) => type === "process")?.action).toBe("replace");
    await driver.apply(deployment, id);
    await driver.waitReady(deployment);
    await expect(topics()).rejects.toMatchObject({ code: "unreachable" });
    await smokeCheck(await (await driver.access(deployment)).kafka());
    const load: BenchmarkLoad = {
      ...{ workload: "produce", topic: "millrace-benchmark-1", partitions: 1 },
      ...{ recordSizeBytes: 100, recordsPerSecond: 100, bytesMax: 1_000_000 },
      ...{ warmUpSeconds: 1, testSeconds: 1 },
    };
    await kafka((admin) => admin.createTopic({ name: load.topic, partitions: 1, configs: {} }));
    const { signal } = new AbortController();
    const { produced } = await driver.runLoad(deployment, load, { signal, onSample: () => {} });
    expect(produced?.errors).toBe(0);
    expect(produced?.records).toBeGreaterThan(0);
    await kafka((admin) => admin.deleteTopic(load.topic));
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
