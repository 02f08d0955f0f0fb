/** A real broker whose only way to the control plane is the gateway: it has no admin port. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BrokerHttp, type ProduceRequest } from "@millrace/broker-admin";
import { linkCredentialsIn } from "@millrace/core";
import { type Database, openDatabase } from "@millrace/db";
import type { ClusterId } from "@millrace/domain";
import { type ClusterDeployment, type ControlLink, LocalDriver } from "@millrace/provisioner";
import { afterEach, describe, expect, test } from "vitest";
import { eventually, gatewayFixture, TOKEN } from "../../gateway/test/fixture.ts";
import { type GatewayProcess, startGatewayProcess } from "../../gateway/test/gateway-process.ts";
import { brokerBin, SMALL_DEPLOYMENT } from "./real-broker.ts";

/** A broker dials again within two seconds, and a busy machine takes its time. */
const RECONNECT_MS_MAX = 60_000;
const KILLS = 8;

const fixture = gatewayFixture();
afterEach(() => fixture.endAll());

interface Linked {
  readonly clusterId: ClusterId;
  readonly driver: LocalDriver;
  readonly deployment: ClusterDeployment;
  readonly folder: string;
  gateway: GatewayProcess;
}

function localDriver(db: Database, link: ControlLink): LocalDriver {
  return new LocalDriver({
    home: fixture.folder,
    program: { command: [brokerBin ?? ""], environment: { PATH: process.env.PATH ?? "" } },
    ports: { kafkaFirst: 26_000, adminFirst: 26_500, tlsFirst: 29_500, count: 500 },
    link,
    linkCredentials: linkCredentialsIn(db),
  });
}

/** A cluster that serves, and a gateway that it has connected to. */
async function linkedCluster(): Promise<Linked> {
  const db = openDatabase({ url: fixture.database.workerUrl });
  fixture.onEnd(() => db.close());
  await localDriver(db, { address: "127.0.0.1:0", url: "", token: "" }).ensureGatewayCertificate();
  fixture.tlsFile = join(fixture.folder, "keys/gateway.pem");
  const gateway = await startGatewayProcess(fixture);
  const address = `127.0.0.1:${gateway.brokerPort}`;
  const driver = localDriver(db, { address, url: gateway.internalUrl, token: TOKEN });
  const clusterId = await fixture.cluster();
  const deployment = {
    ...SMALL_DEPLOYMENT,
    clusterId,
    placement: await driver.allocate(clusterId, [], 1),
  };
  const folder = join(fixture.folder, "clusters", clusterId);
  fixture.onEnd(() => driver.destroy(clusterId));
  await driver.prepare(deployment);
  await driver.ensureRunning(deployment);
  await driver.waitReady(deployment);
  return { clusterId, driver, deployment, folder, gateway };
}

function text(data: string): ProduceRequest["records"][number] {
  return { value: { encoding: "text", data } };
}

async function brokerOf({ driver, deployment }: Linked): Promise<BrokerHttp> {
  return new BrokerHttp(await driver.access(deployment));
}

describe.skipIf(brokerBin === undefined)("a broker without an admin port", () => {
  test("does over its link all that the control plane asks of it", async () => {
    const it = await linkedCluster();
    const properties = await readFile(join(it.folder, "server.properties"), "utf8");
    expect(properties).toContain("\nadmin.listener=none\n");
    expect(await it.driver.observe(it.deployment)).toBe("ready");

    const broker = await brokerOf(it);
    expect((await broker.status()).clusterId).toBe(it.clusterId);
    expect((await broker.metrics()).length).toBeGreaterThan(100);
    expect((await broker.settings()).size).toBeGreaterThan(0);
    await broker.catchUp();
    await broker.storage();
    expect(await broker.quotaUsage()).toEqual([]);

    await broker.topics.create({ name: "orders", partitions: 1, configs: {} });
    expect(await broker.topics.names()).toEqual(["orders"]);
    expect((await broker.groups.list()).groups).toEqual([]);
    const body = { records: [text("x".repeat(200_000)), text("second")] };
    await broker.records.produce("orders", body);
    const reading = new AbortController();
    const page = await broker.records.list("orders", { newest: 1 } as never, reading.signal);
    expect(JSON.stringify(page)).toContain("second");
    const stream = await broker.records.stream("orders", { newest: 2 } as never, reading.signal);
    expect((await stream.next()).done).toBe(false);
    reading.abort();
    await stream.return(undefined).catch(() => {});

    await expect(broker.records.produce("none", body)).rejects.toMatchObject({
      code: "topic_not_found",
    });
    const other = { clusterId: it.clusterId, brokerId: 1 };
    const wrong = new BrokerHttp({ ...(await it.driver.access(it.deployment)), slot: other });
    await expect(wrong.status()).rejects.toMatchObject({
      code: "malformed_answer",
      kafkaError: "WRONG_BROKER",
    });
  });

  test("is back each time that the gateway is killed", async () => {
    const it = await linkedCluster();
    const ports = {
      broker: it.gateway.brokerPort,
      internal: Number(new URL(it.gateway.internalUrl).port),
    };
    const broker = await brokerOf(it);
    for (let kill = 0; kill < KILLS; kill += 1) {
      await it.gateway.kill("SIGKILL");
      await expect(broker.status()).rejects.toMatchObject({ code: "unreachable" });
      it.gateway = await startGatewayProcess(fixture, ports);
      const status = await eventually(() => broker.status(), RECONNECT_MS_MAX);
      expect(status.clusterId).toBe(it.clusterId);
    }
    await eventually(async () => {
      expect(await fixture.rows.brokerLinks.list([it.clusterId])).toMatchObject([
        { brokerId: 0, state: "connected" },
      ]);
    });
  });

  test("has a new credential after each start, and comes back with a replaced one by itself", async () => {
    const it = await linkedCluster();
    const credentialFile = join(it.folder, "link.credential");
    const first = await readFile(credentialFile, "utf8");
    await it.driver.stop(it.clusterId);
    await it.driver.ensureRunning(it.deployment);
    await it.driver.waitReady(it.deployment);
    expect(await readFile(credentialFile, "utf8")).not.toBe(first);

    // Both are revoked: the link ends. The file gets another one, and no process is restarted.
    const broker = await brokerOf(it);
    await fixture.rows.brokerLinks.revokeCredentials(it.clusterId);
    await eventually(() => expect(broker.status()).rejects.toMatchObject({ code: "unreachable" }));
    const slot = { clusterId: it.clusterId, brokerId: 0 };
    await writeFile(credentialFile, `${await fixture.credential(slot)}\n`);
    // It pauses for up to 30 s after it was rejected.
    await eventually(() => broker.status(), 90_000);
  });
});
