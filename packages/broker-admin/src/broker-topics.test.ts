import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, expect, test } from "vitest";
import { BrokerHttp } from "./broker-http.ts";
import type { BrokerTopics } from "./broker-topics.ts";
import { smokeCheck } from "./smoke-check.ts";

interface Answer {
  readonly status?: number;
  readonly body?: unknown;
}

let server: Server | undefined;
/** Method, path and body of each request. */
let requests: [string, string, unknown][];

afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

async function brokerThat(answer: (method: string, path: string) => Answer): Promise<BrokerHttp> {
  requests = [];
  server = createServer(async (request, response) => {
    const { method = "", url = "" } = request;
    const sent = await text(request);
    requests.push([method, url, sent === "" ? undefined : JSON.parse(sent)]);
    const { status = 200, body } = answer(method, url);
    response.writeHead(status).end(body === undefined ? undefined : JSON.stringify(body));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return new BrokerHttp({ adminUrl: `http://127.0.0.1:${port}`, adminToken: "secret" });
}

async function topicsThat(answer: (method: string, path: string) => Answer): Promise<BrokerTopics> {
  return (await brokerThat(answer)).topics;
}

function topic(name: string, more: object = {}): object {
  const counts = { partition_count: 3, replication_factor: 1, offline_partition_count: 1 };
  return { name, topic_id: "a-b", ...counts, ...more };
}

test("names are read page after page", async () => {
  const topics = await topicsThat((_, path) =>
    path.includes("after=a%26b")
      ? { body: { topics: [topic("c")], next: null } }
      : { body: { topics: [topic("a"), topic("a&b")], next: "a&b" } },
  );
  expect(await topics.names({ includeInternal: true })).toEqual(["a", "a&b", "c"]);
  expect(requests.map(([, path]) => path)).toEqual([
    "/v1/topics?limit=1000&internal=true",
    "/v1/topics?limit=1000&after=a%26b&internal=true",
  ]);
});

test("a described topic has its settings by where they come from", async () => {
  const sources = {
    a: "DYNAMIC_TOPIC_CONFIG",
    b: "STATIC_BROKER_CONFIG",
    c: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    d: "DEFAULT_CONFIG",
    e: "OF_A_NEWER_BROKER",
  };
  const configs = Object.fromEntries(
    Object.entries(sources).map(([name, source]) => [name, { value: null, source }]),
  );
  const topics = await topicsThat(() => ({ body: topic("orders", { configs }) }));
  expect(await topics.describe("orders")).toEqual({
    ...{ name: "orders", topicId: "a-b", partitions: 3, replicationFactor: 1 },
    configs: {
      a: { value: null, source: "topic" },
      b: { value: null, source: "broker" },
      c: { value: null, source: "broker" },
      d: { value: null, source: "default" },
      e: { value: null, source: "default" },
    },
  });
  expect(requests[0]?.[1]).toBe("/v1/topics/orders?include=configs");
});

test("a change tells what is set and what is taken back, and no change asks nothing", async () => {
  const topics = await topicsThat(() => ({ status: 204 }));
  await topics.change("orders", { configs: {} });
  expect(requests).toEqual([]);
  const configs = { "retention.ms": "5", "cleanup.policy": null };
  await topics.change("orders", { configs, partitions: 4 }, { validateOnly: true });
  await topics.change("orders", { partitions: 4 });
  expect(requests).toEqual([
    [
      "PATCH",
      "/v1/topics/orders",
      {
        set: { "retention.ms": "5" },
        unset: ["cleanup.policy"],
        partitions: 4,
        validate_only: true,
      },
    ],
    ["PATCH", "/v1/topics/orders", { set: {}, unset: [], partitions: 4, validate_only: false }],
  ]);
});

for (const [status, kafkaError, code] of [
  [409, "TOPIC_ALREADY_EXISTS", "topic_exists"],
  [404, "UNKNOWN_TOPIC_OR_PARTITION", "topic_not_found"],
  [400, "INVALID_TOPIC_EXCEPTION", "invalid_topic_name"],
  [400, "INVALID_PARTITIONS", "invalid_partitions"],
  [400, "INVALID_CONFIG", "invalid_config"],
  [400, "POLICY_VIOLATION", "invalid_request"],
  [503, "NOT_CONTROLLER", "temporarily_failed"],
] as const) {
  test(`${kafkaError} is ${code}, in the broker's words`, async () => {
    const error = { code: kafkaError, message: "because" };
    const topics = await topicsThat(() => ({ status, body: { error } }));
    const created = topics.create({ name: "orders", partitions: 1, configs: {} });
    await expect(created).rejects.toMatchObject({ code, kafkaError, said: "because" });
    await expect(topics.delete("orders")).rejects.toMatchObject({ code });
  });
}

/** A broker whose reads give what `read` makes of the values that were written. */
function recordBroker(read: (written: string[]) => string[]): Promise<BrokerHttp> {
  return brokerThat((method, path) => {
    if (path.startsWith("/v1/topics?")) {
      const left = [topic("__millrace_smoke_left"), topic("orders")];
      return { body: { topics: left, next: null } };
    }
    if (!path.includes("/records")) return { status: method === "POST" ? 201 : 204, body: {} };
    if (method === "POST") {
      const results = [0, 1, 2].map((offset) => ({
        ...{ partition: 0, offset: String(offset), timestamp_ms: "0" },
      }));
      return { body: { results } };
    }
    const sent = requests.find(([, to]) => to.endsWith("/records"))?.[2] as {
      records: { value: { data: string } }[];
    };
    const values = read(sent.records.map(({ value }) => value.data));
    const record = (data: string, offset: number) => ({
      ...{ partition: 0, offset: String(offset), timestamp_ms: "0", timestamp_type: "create_time" },
      ...{ key: null, tombstone: false, headers: [], size_bytes: 64 },
      value: { encoding: "base64", data, bytes: 64, truncated: false },
    });
    const page = { cursor: null, end: true, scanned_records: 3, scanned_bytes: 1, partitions: [] };
    return { body: { ...page, records: values.map(record) } };
  });
}

test("the smoke check deletes what an earlier one left, and its own topic", async () => {
  await smokeCheck(await recordBroker((written) => written));
  const deleted = requests.filter(([method]) => method === "DELETE").map(([, path]) => path);
  expect(deleted).toEqual([
    "/v1/topics/__millrace_smoke_left",
    expect.stringMatching(/^\/v1\/topics\/__millrace_smoke_[0-9a-f]{12}$/),
  ]);
});

test("the smoke check fails where records are missing, other ones or in another order", async () => {
  for (const read of [
    (written: string[]) => written.slice(1),
    (written: string[]) => [...written].reverse(),
    () => ["a", "b", "c"],
  ]) {
    const checked = smokeCheck(await recordBroker(read));
    await expect(checked).rejects.toMatchObject({ code: "smoke_mismatch" });
    server?.close();
  }
});
