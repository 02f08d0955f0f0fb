import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { newId } from "@millrace/domain";
import { afterEach, expect, test } from "vitest";
import { BrokerHttp } from "./broker-http.ts";

let server: Server | undefined;

afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

async function brokerThat(listener: RequestListener, timeoutMs = 2_000): Promise<BrokerHttp> {
  server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return new BrokerHttp({ adminUrl: `http://127.0.0.1:${port}/`, adminToken: "secret", timeoutMs });
}

test("sends the token and reads status and metrics", async () => {
  const broker = await brokerThat((request, response) => {
    expect(request.headers.authorization).toBe("Bearer secret");
    if (request.url === "/metrics") return response.end("a_total 1\n");
    return response.end(
      JSON.stringify({ cluster_id: "clu_a", version: "1", uptime_ms: 5, phase: "running" }),
    );
  });
  expect(await broker.ready()).toBe(true);
  const status = await broker.status();
  expect(status).toMatchObject({ clusterId: "clu_a", version: "1", uptimeMs: 5 });
  expect(status.raw.phase).toBe("running");
  expect(await broker.metrics()).toEqual([{ name: "a_total", labels: {}, value: 1 }]);
});

for (const [status, code] of [
  [401, "unauthorized"],
  [404, "unsupported"],
  [500, "refused"],
  [503, "not_ready"],
  [302, "unreachable"],
] as const) {
  test(`an answer of ${status} is ${code}, and not ready`, async () => {
    const broker = await brokerThat((_request, response) =>
      response.writeHead(status, { location: "/elsewhere" }).end(),
    );
    await expect(broker.status()).rejects.toMatchObject({ code });
    expect(await broker.ready()).toBe(false);
  });
}

test("answers that cannot be understood are malformed", async () => {
  const broker = await brokerThat((request, response) =>
    response.end(request.url === "/metrics" ? "{" : "[1]"),
  );
  await expect(broker.status()).rejects.toMatchObject({ code: "malformed_answer" });
  await expect(broker.metrics()).rejects.toMatchObject({ code: "malformed_answer" });
});

test("settings come with their bounds, however the numbers are written", async () => {
  const broker = await brokerThat((request, response) => {
    expect(request.url).toBe("/v1/config");
    const bounds = { min: "16777216", max: 8_000_000_000, reason: "the machine has 10 GB" };
    const settings = [
      { key: "s3.block.cache.size", value: "134217728", dynamic: true, ...bounds, default: "1" },
      { key: "node.id", value: 0, dynamic: false, min: null, max: null, reason: null },
      { key: "admin.token.file", value: null, dynamic: false },
    ];
    response.end(JSON.stringify({ settings }));
  });
  const settings = await broker.settings();
  expect(settings.get("s3.block.cache.size")).toEqual({
    value: "134217728",
    dynamic: true,
    min: 16_777_216,
    max: 8_000_000_000,
    reason: "the machine has 10 GB",
  });
  expect(settings.get("node.id")).toMatchObject({ value: "0", min: undefined, max: undefined });
  expect(settings.get("admin.token.file")?.value).toBeUndefined();
});

test("an answer of another shape is malformed, and says where", async () => {
  const broker = await brokerThat((request, response) =>
    response.end(request.url === "/v1/config" ? '{"settings":[{"key":1}]}' : '{"time":"now"}'),
  );
  for (const ask of [() => broker.settings(), () => broker.catchUp()]) {
    await expect(ask()).rejects.toMatchObject({ code: "malformed_answer" });
  }
  await expect(broker.settings()).rejects.toThrow("settings/0/key");
  await expect(broker.catchUp()).rejects.toThrow("time");
});

test("an answer without end is cut at the bound", async () => {
  const broker = await brokerThat((_request, response) => {
    const block = Buffer.alloc(1024 * 1024, "a 1\n");
    const more = () => {
      while (!response.destroyed && response.write(block));
      if (!response.destroyed) response.once("drain", more);
    };
    more();
  }, 20_000);
  await expect(broker.metrics()).rejects.toMatchObject({ code: "malformed_answer" });
});

test("a broker that says nothing is given up at the timeout", async () => {
  const broker = await brokerThat(() => {}, 100);
  await expect(broker.status()).rejects.toMatchObject({ code: "timeout", retryable: true });
});

test("a broker that is not there is unreachable", async () => {
  const broker = new BrokerHttp({ adminUrl: "http://127.0.0.1:1", adminToken: "secret" });
  await expect(broker.status()).rejects.toMatchObject({ code: "unreachable", retryable: true });
});

for (const [error, status, code] of [
  ["BROKER_NOT_CONNECTED", 503, "unreachable"],
  ["BROKER_DISCONNECTED", 502, "timeout"],
  ["BROKER_TIMEOUT", 504, "timeout"],
  ["BROKER_BUSY", 429, "busy"],
  ["WRONG_BROKER", 502, "malformed_answer"],
  ["UNAUTHORIZED", 401, "unauthorized"],
] as const) {
  test(`a gateway's ${error} is ${code}`, async () => {
    const broker = await brokerThat((_request, response) => {
      response.writeHead(status, { "retry-after": "1", "millrace-gateway-error": error });
      response.end(JSON.stringify({ error: { code: error, message: "why" } }));
    });
    await expect(broker.status()).rejects.toMatchObject({ code, kafkaError: error, said: "why" });
  });
}

test("a broker's error is never taken for the gateway's", async () => {
  const broker = await brokerThat((_request, response) => {
    response.writeHead(503);
    response.end(JSON.stringify({ error: { code: "BROKER_NOT_CONNECTED", message: "why" } }));
  });
  await expect(broker.status()).rejects.toMatchObject({ code: "temporarily_failed", said: "why" });
});

test("an answer of another broker, or of nobody, is none", async () => {
  const slot = { clusterId: newId("clu"), brokerId: 3 };
  let ids: Record<string, string> = {};
  let status = 200;
  await brokerThat((request, response) => {
    expect(request.headers).toMatchObject({
      "millrace-cluster": slot.clusterId,
      "millrace-broker": "3",
    });
    response.writeHead(status, ids).end("a_total 1\n");
  });
  const { port } = (server as Server).address() as AddressInfo;
  const adminUrl = `http://127.0.0.1:${port}`;
  const broker = new BrokerHttp({ adminUrl, adminToken: "secret", slot });
  const rejected = { code: "malformed_answer" };
  await expect(broker.metrics()).rejects.toMatchObject(rejected);
  ids = { "millrace-cluster": slot.clusterId, "millrace-broker": "4" };
  await expect(broker.metrics()).rejects.toMatchObject(rejected);
  ids = { "millrace-cluster": newId("clu"), "millrace-broker": "3" };
  await expect(broker.metrics()).rejects.toMatchObject(rejected);
  status = 401;
  await expect(broker.metrics()).rejects.toMatchObject(rejected);
  ids = { "millrace-cluster": slot.clusterId, "millrace-broker": "3" };
  await expect(broker.metrics()).rejects.toMatchObject({ code: "unauthorized" });
  status = 200;
  expect(await broker.metrics()).toHaveLength(1);
});
