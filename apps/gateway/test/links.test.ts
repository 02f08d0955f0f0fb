import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { type AddressInfo, connect as connectTcp } from "node:net";
import { pipeline } from "node:stream";
import { createServer as createTlsServer } from "node:tls";
import { runSql, selfSigned } from "@millrace/testkit";
import { afterEach, describe, expect, test } from "vitest";
import { HANDSHAKE_CONNECTIONS_MAX, SLOT_LINKS } from "../src/bounds.ts";
import { FakeBroker, idsOf, NoLink, openLink } from "./fake-broker.ts";
import { call, errorOf, eventually, gatewayFixture, reached } from "./fixture.ts";
import { startGatewayProcess } from "./gateway-process.ts";

const fixture = gatewayFixture();
afterEach(() => fixture.endAll());

async function refusalOf(connecting: Promise<unknown>): Promise<{ status: number; text: string }> {
  const error = await connecting.then(
    () => "it got a link",
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(NoLink);
  const { status, message } = error as NoLink;
  return { status, text: message };
}

describe("a broker gets no link", () => {
  test("with a credential that is unknown, revoked, missing, or another broker's", async () => {
    const gateway = await fixture.gateway();
    const { options } = await fixture.broker(gateway.brokerPort);
    const other = await fixture.broker(gateway.brokerPort);
    const credential = `mlk_${"A".repeat(43)}`;
    for (const wrong of [
      { ...options, credential },
      { ...options, credential: "none" },
      { ...options, brokerId: 1 },
      { ...options, credential: other.options.credential },
    ]) {
      expect(await refusalOf(openLink(wrong))).toMatchObject({ status: 401 });
    }
    await fixture.rows.brokerLinks.revokeCredentials(options.clusterId);
    expect(await refusalOf(openLink(options))).toEqual({
      status: 401,
      text: "The credential is unknown or was revoked.\n",
    });
  });

  test("where it asks in another way", async () => {
    const gateway = await fixture.gateway();
    const { options } = await fixture.broker(gateway.brokerPort);
    const asked = (headers: Record<string, string>) => refusalOf(openLink({ ...options, headers }));
    expect(await asked({ upgrade: "websocket" })).toMatchObject({ status: 400 });
    expect(await asked({ "millrace-version": "x".repeat(65) })).toMatchObject({ status: 400 });
    expect(await asked({ "millrace-version": "a b" })).toMatchObject({ status: 400 });
    expect(gateway.links.size).toBe(0);
  });

  test("while the database is away, and the links that are there serve", async () => {
    const gateway = await fixture.gateway();
    const broker = await fixture.broker(gateway.brokerPort);
    await broker.connect();
    await reached(gateway, broker.options);
    const late = await fixture.broker(gateway.brokerPort);
    const rename = (from: string, to: string) =>
      runSql(fixture.database.url, `ALTER TABLE ${from} RENAME TO ${to}`);
    // No statement of a gateway succeeds any more.
    for (const table of ["broker_credential", "broker_link", "gateway"]) {
      await rename(table, `${table}_away`);
    }
    expect(await refusalOf(openLink(late.options))).toMatchObject({ status: 503 });
    expect(await errorOf(await call(gateway, late.options))).toMatchObject({
      status: 503,
      code: "BROKER_NOT_CONNECTED",
    });
    await reached(gateway, broker.options);
    for (const table of ["broker_credential", "broker_link", "gateway"]) {
      await rename(`${table}_away`, table);
    }
    await late.connect();
    await reached(gateway, late.options);
  });

  test("when it connects over and over, until it waits", async () => {
    const gateway = await fixture.gateway();
    const broker = await fixture.broker(gateway.brokerPort);
    const other = await fixture.broker(gateway.brokerPort);
    await other.connect();
    let made = 0;
    const refused = await eventually(async () => {
      const link = await openLink(broker.options).catch((error: NoLink) => error);
      if (link instanceof NoLink) return link;
      made += 1;
      link.destroy();
      throw new Error("another link");
    });
    expect(refused).toMatchObject({ status: 503, message: expect.stringContaining("too often") });
    expect(made).toBeGreaterThanOrEqual(SLOT_LINKS.capacity);
    await reached(gateway, other.options);
    await eventually(() => broker.connect());
    await reached(gateway, broker.options);
  });
});

test("a newer link replaces the older one, on the same gateway and on another", async () => {
  const [a, b] = [await fixture.gateway(), await fixture.gateway()];
  const older = await fixture.broker(a.brokerPort);
  await older.connect();
  await reached(a, older.options);
  const newer = await new FakeBroker(older.options).connect();
  fixture.onEnd(() => newer.close());
  await eventually(() => expect(older.isConnected).toBe(false));
  await reached(a, older.options);
  expect(a.links.size).toBe(1);

  const newest = await new FakeBroker({ ...older.options, port: b.brokerPort }).connect();
  fixture.onEnd(() => newest.close());
  await eventually(() => expect(newer.isConnected).toBe(false));
  await reached(a, older.options);
  await reached(b, older.options);
  expect([a.links.size, b.links.size]).toEqual([0, 1]);
  expect(await fixture.rows.brokerLinks.list([older.options.clusterId])).toMatchObject([
    { state: "connected", brokerVersion: "0.1.0", remoteAddress: "127.0.0.1" },
  ]);
});

test("two gateways reach each other's brokers, with bodies, and forward once only", async () => {
  const [a, b] = [await fixture.gateway(), await fixture.gateway()];
  const broker = await fixture.broker(a.brokerPort);
  await broker.connect();
  await reached(b, broker.options);
  const body = "x".repeat(1024 * 1024);
  const response = await call(b, broker.options, "/v1/records?x=1", { method: "POST", body });
  const got = (await response.json()) as { headers: Record<string, string>; body: string };
  expect(got.body).toBe(body);
  expect(got.headers[":path"]).toBe("/v1/records?x=1");
  const headers = { "millrace-forwarded": "1" };
  expect(await errorOf(await call(b, broker.options, "/", { headers }))).toMatchObject({
    code: "BROKER_NOT_CONNECTED",
  });
  broker.cut();
  await eventually(async () => {
    expect(await errorOf(await call(b, broker.options))).toMatchObject({
      code: "BROKER_NOT_CONNECTED",
    });
  });
});

test("a caller that goes away cancels the stream behind two gateways", async () => {
  const [a, b] = [await fixture.gateway(), await fixture.gateway()];
  const ended: number[] = [];
  let begun = 0;
  const broker = await fixture.broker(a.brokerPort, undefined, (stream, headers) => {
    if (headers[":path"] === "/v1/status") {
      return stream.respond(
        { ":status": 200, "millrace-cluster": broker.options.clusterId, "millrace-broker": "0" },
        { endStream: true },
      );
    }
    begun += 1;
    stream.on("close", () => ended.push(stream.rstCode ?? -1));
    if (headers[":path"] === "/head") {
      stream.respond({ ":status": 200, ...idsOf(headers) });
      stream.write("first");
    }
  });
  await broker.connect();
  await reached(b, broker.options);
  for (const path of ["/silent", "/head"]) {
    const leaving = new AbortController();
    const { signal } = leaving;
    const answered = call(b, broker.options, path, { signal }).then(
      (response) => response.text().catch(() => ""),
      () => "",
    );
    const wanted = ended.length + 1;
    await eventually(() => expect(begun).toBe(wanted));
    leaving.abort();
    await answered;
    await eventually(() => expect(ended).toHaveLength(wanted));
  }
  expect(ended).toEqual([8, 8]);
});

test("a revoked credential ends its link within seconds; its successor keeps its own", async () => {
  const gateway = await fixture.gateway();
  const broker = await fixture.broker(gateway.brokerPort);
  await broker.connect();
  await reached(gateway, broker.options);
  // One successor leaves the credential valid, a second one revokes it.
  await fixture.credential(broker.options);
  const credential = await fixture.credential(broker.options);
  await eventually(() => expect(broker.isConnected).toBe(false), 5_000);
  const next = await new FakeBroker({ ...broker.options, credential }).connect();
  fixture.onEnd(() => next.close());
  await reached(gateway, broker.options);
  await fixture.rows.brokerLinks.revokeCredentials(broker.options.clusterId);
  await eventually(() => expect(next.isConnected).toBe(false), 5_000);
});

test("a peer that upgrades and speaks no HTTP/2 gets no calls, and takes none from the broker", async () => {
  const gateway = await fixture.gateway();
  const broker = await fixture.broker(gateway.brokerPort);
  await broker.connect();
  await reached(gateway, broker.options);
  for (const bytes of ["", "HTTP/1.1 200 OK\r\n\r\n", "\0".repeat(4096)]) {
    const socket = await openLink(broker.options);
    fixture.onEnd(() => socket.destroy());
    if (bytes !== "") {
      socket.write(bytes);
      socket.resume();
      await eventually(() => expect(socket.closed).toBe(true));
    }
    await reached(gateway, broker.options);
  }
});

test("a broker that answers nothing any more is disconnected", async () => {
  const gateway = await fixture.gateway();
  const broker = await fixture.broker(gateway.brokerPort);
  await broker.connect();
  await reached(gateway, broker.options);
  // What arrives stays in the socket: no ping is answered.
  broker.socket!.pause();
  (broker.socket as unknown as { _handle: { readStop(): void } })._handle.readStop();
  await eventually(() => expect(gateway.links.size).toBe(0), 15_000);
  await eventually(async () => {
    const [link] = await fixture.rows.brokerLinks.list([broker.options.clusterId]);
    expect(link?.state).toBe("disconnected");
    expect(link!.since.getTime() - link!.lastHeardAt.getTime()).toBeGreaterThan(4_000);
  });
});

test("whoever connects and says nothing takes no link's place", async () => {
  const gateway = await fixture.gateway();
  const sockets = Array.from({ length: 50 }, () => connectTcp(gateway.brokerPort, "127.0.0.1"));
  fixture.onEnd(() => {
    for (const socket of sockets) socket.destroy();
  });
  await Promise.all(sockets.map((socket) => once(socket, "connect")));
  const broker = await fixture.broker(gateway.brokerPort);
  await broker.connect();
  await reached(gateway, broker.options);
  await eventually(() => expect(sockets.every((socket) => socket.closed)).toBe(true), 15_000);
});

test("connections that are no links are bounded by themselves, and only they", async () => {
  const gateway = await fixture.gateway();
  const [linked, late] = [
    await fixture.broker(gateway.brokerPort),
    await fixture.broker(gateway.brokerPort),
  ];
  await linked.connect();
  const silent = Array.from({ length: HANDSHAKE_CONNECTIONS_MAX }, () =>
    connectTcp(gateway.brokerPort, "127.0.0.1"),
  );
  fixture.onEnd(() => {
    for (const socket of silent) socket.destroy();
  });
  await Promise.all(silent.map((socket) => once(socket, "connect")));
  await expect(late.connect()).rejects.toThrow();
  await reached(gateway, linked.options);
  expect(silent.filter((socket) => socket.closed)).toEqual([]);
  for (const socket of silent.splice(0)) socket.destroy();
  await eventually(() => late.connect());
  await reached(gateway, late.options);
});

test("a replaced certificate serves new connections, and cuts none", async () => {
  const gateway = await fixture.gateway();
  const broker = await fixture.broker(gateway.brokerPort);
  await broker.connect();
  await reached(gateway, broker.options);
  const [before, { certificate, key }] = [fixture.root, await selfSigned()];
  await writeFile(fixture.tlsFile, "half-written");
  await writeFile(fixture.tlsFile, `${certificate}\n${key}`);
  fixture.root = certificate;
  const other = await fixture.broker(gateway.brokerPort);
  await eventually(() => other.connect());
  await reached(gateway, other.options);
  await reached(gateway, broker.options);
  expect(broker.connects).toBe(1);
  expect(before).not.toBe(certificate);
});

test("a broker gets its link through a load balancer that ends TLS", async () => {
  const gateway = await fixture.gateway({ tlsFile: undefined });
  const pem = await readFile(fixture.tlsFile);
  const balancer = createTlsServer({ cert: pem, key: pem }, (client) => {
    const target = connectTcp(gateway.brokerPort, "127.0.0.1");
    pipeline(client, target, client, () => {});
  });
  fixture.onEnd(() => balancer.close());
  await once(balancer.listen(0, "127.0.0.1"), "listening");
  const broker = await fixture.broker((balancer.address() as AddressInfo).port);
  await broker.connect();
  await reached(gateway, broker.options);
});

test("200 brokers on one gateway that is killed and started again: each is back, as itself", async () => {
  const first = await startGatewayProcess(fixture);
  const clusters = await Promise.all(Array.from({ length: 100 }, () => fixture.cluster()));
  const brokers = await Promise.all(
    clusters.flatMap((clusterId) =>
      [0, 1].map((brokerId) => fixture.broker(first.brokerPort, { clusterId, brokerId })),
    ),
  );
  for (const broker of brokers) void broker.keepConnected();
  const everyBroker = () =>
    Promise.all(brokers.map((broker) => reached(first, broker.options, 60_000)));
  await everyBroker();
  for (let round = 0; round < 3; round += 1) await everyBroker();

  await first.kill("SIGKILL");
  const ports = { broker: first.brokerPort, internal: Number(new URL(first.internalUrl).port) };
  await startGatewayProcess(fixture, ports);
  await everyBroker();
  await eventually(async () => {
    for (const clusterId of clusters) {
      const links = await fixture.rows.brokerLinks.list([clusterId]);
      expect(links.map(({ brokerId, state }) => [brokerId, state])).toEqual([
        [0, "connected"],
        [1, "connected"],
      ]);
    }
  });
});

test("a gateway that stops ends its calls, says that its brokers are gone, and leaves no row", async () => {
  const gateway = await fixture.gateway();
  const broker = await fixture.broker(gateway.brokerPort);
  await broker.connect();
  await reached(gateway, broker.options);
  await gateway.stop();
  expect(await fixture.rows.brokerLinks.list([broker.options.clusterId])).toMatchObject([
    { state: "disconnected" },
  ]);
});
