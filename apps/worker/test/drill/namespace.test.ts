/**
 * `npm run drill:namespace`: a broker in a network namespace of its own, which has a route to the gateway's address and to no
 * other, and that nobody can connect to. Everything that the control plane asks of it goes over the link. Needs root.
 */
import { execFile } from "node:child_process";
import { randomInt } from "node:crypto";
import { join } from "node:path";
import { promisify } from "node:util";
import { BrokerHttp } from "@millrace/broker-admin";
import { linkCredentialsIn } from "@millrace/core";
import { openDatabase } from "@millrace/db";
import { type ControlLink, LocalDriver } from "@millrace/provisioner";
import { afterEach, expect, test } from "vitest";
import { gatewayFixture, TOKEN } from "../../../gateway/test/fixture.ts";
import { brokerBin, SMALL_DEPLOYMENT } from "../real-broker.ts";

const run = promisify(execFile);
const fixture = gatewayFixture();
afterEach(() => fixture.endAll());

interface Namespace {
  readonly name: string;
  /** Of the gateway's end and of the broker's end. */
  readonly addresses: readonly [string, string];
}

/** A namespace with one cable to this machine: no default route. */
async function namespace(): Promise<Namespace> {
  const id = randomInt(1 << 14);
  const name = `millrace-${id}`;
  const [ours, theirs] = [`mlr${id}g`, `mlr${id}b`];
  // 198.18.0.0/15 is for tests (RFC 2544).
  const net = `198.18.${id >> 6}.${(id & 63) * 4}`.split(".");
  const at = (host: number) => [...net.slice(0, 3), Number(net[3]) + host].join(".");
  const addresses = [at(1), at(2)] as const;
  try {
    await run("ip", ["netns", "add", name]);
  } catch (cause) {
    throw new Error("drill:namespace needs root and iproute2 (ip netns)", { cause });
  }
  // The cable goes with it.
  fixture.onEnd(() => run("ip", ["netns", "delete", name]));
  await run("ip", ["link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", name]);
  await run("ip", ["address", "add", `${addresses[0]}/30`, "dev", ours]);
  await run("ip", ["link", "set", ours, "up"]);
  for (const command of [
    ["address", "add", `${addresses[1]}/30`, "dev", theirs],
    ["link", "set", theirs, "up"],
    ["link", "set", "lo", "up"],
  ]) {
    await run("ip", ["-n", name, ...command]);
  }
  return { name, addresses };
}

/** What connecting from the namespace ends with; "" where it succeeds. */
async function connectFrom({ name }: Namespace, host: string, port: number): Promise<string> {
  const script = `exec 3<>/dev/tcp/${host}/${port}`;
  try {
    await run("ip", ["netns", "exec", name, "timeout", "5", "bash", "-c", script]);
    return "";
  } catch (error) {
    return (error as { stderr: string }).stderr;
  }
}

/** Runs the tests' Kafka client inside, where the broker's listener is. */
async function clientIn({ name }: Namespace, call: string): Promise<void> {
  const module = JSON.stringify(join(import.meta.dirname, "../real-broker.ts"));
  const script = `import { consume, produce } from ${module}; await ${call}; process.exit(0);`;
  const node = [process.execPath, "--input-type=module", "--eval", script];
  await run("ip", ["netns", "exec", name, ...node]);
}

test("a broker that reaches the gateway's address only does all that is asked of it", async () => {
  expect(brokerBin, "build the broker first: npm run build").toBeDefined();
  const isolated = await namespace();
  const [gatewayHost, brokerHost] = isolated.addresses;
  const db = openDatabase({ url: fixture.database.workerUrl });
  fixture.onEnd(() => db.close());
  const driverAt = (link: ControlLink) =>
    new LocalDriver({
      home: fixture.folder,
      program: {
        command: ["ip", "netns", "exec", isolated.name, brokerBin ?? ""],
        environment: { PATH: process.env.PATH ?? "" },
      },
      link,
      linkCredentials: linkCredentialsIn(db),
    });
  const anyPort = { address: `${gatewayHost}:0`, url: "", token: TOKEN };
  await driverAt(anyPort).ensureGatewayCertificate();
  const gateway = await fixture.gateway({
    listen: { host: gatewayHost, port: 0 },
    tlsFile: join(fixture.folder, "keys/gateway.pem"),
  });
  const address = `${gatewayHost}:${gateway.brokerPort}`;
  const driver = driverAt({ address, url: gateway.internalUrl, token: TOKEN });
  const clusterId = await fixture.cluster();
  const placement = await driver.allocate(clusterId, [], 1);
  const deployment = { ...SMALL_DEPLOYMENT, clusterId, placement };
  fixture.onEnd(() => driver.destroy(clusterId));
  await driver.prepare(deployment);
  await driver.ensureRunning(deployment);
  await driver.waitReady(deployment);

  // There is no other way, in neither direction.
  const internalPort = Number(new URL(gateway.internalUrl).port);
  expect(await connectFrom(isolated, gatewayHost, gateway.brokerPort)).toBe("");
  expect(await connectFrom(isolated, gatewayHost, internalPort)).toContain("refused");
  expect(await connectFrom(isolated, "127.0.0.1", internalPort)).toContain("refused");
  expect(await connectFrom(isolated, "192.0.2.1", 443)).toContain("unreachable");
  await expect(fetch(`http://${brokerHost}:${placement.kafkaPort}`)).rejects.toMatchObject({
    cause: { code: "ECONNREFUSED" },
  });

  expect(await driver.observe(deployment)).toBe("ready");
  const broker = new BrokerHttp(await driver.access(deployment));
  expect((await broker.status()).clusterId).toBe(clusterId);
  expect((await broker.metrics()).length).toBeGreaterThan(100);
  const cacheSize = "s3.block.cache.size";
  await broker.changeSettings({ set: { [cacheSize]: String(48 * 1024 ** 2) } });
  expect((await broker.settings()).get(cacheSize)?.value).toBe(String(48 * 1024 ** 2));

  await broker.topics.create({ name: "orders", partitions: 2, configs: {} });
  await broker.topics.change("orders", { configs: { "retention.ms": "3600000" } });
  expect((await broker.topics.describe("orders")).configs["retention.ms"]?.value).toBe("3600000");
  const records = [{ partition: 0, value: { encoding: "text" as const, data: "over the link" } }];
  await broker.records.produce("orders", { records });
  const reading = AbortSignal.timeout(30_000);
  const page = await broker.records.list("orders", { newest: 1 }, reading);
  expect(page.records.map(({ value }) => value?.data)).toContain("over the link");

  const listener = JSON.stringify(`127.0.0.1:${placement.kafkaPort}`);
  await clientIn(isolated, `produce(${listener}, "orders", 30)`);
  await clientIn(isolated, `consume(${listener}, "orders", 20)`);
  expect(await broker.groups.describe("readers")).toMatchObject({
    partitions: [{ topic: "orders" }, { topic: "orders" }],
  });
});
