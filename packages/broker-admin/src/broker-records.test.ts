import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { BrokerHttp } from "./broker-http.ts";
import type { BrokerRecords } from "./broker-records.ts";

let server: Server | undefined;
const going = () => new AbortController().signal;

afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

async function recordsOf(listener: RequestListener): Promise<BrokerRecords> {
  server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return new BrokerHttp({ adminUrl: `http://127.0.0.1:${port}`, adminToken: "secret" }).records;
}

const PAGE = {
  records: [],
  cursor: "c",
  end: true,
  scanned_records: 0,
  scanned_bytes: 0,
  partitions: [],
};

test("a page is asked for with the topic and the filters encoded", async () => {
  const records = await recordsOf((request, response) => {
    expect(request.headers.authorization).toBe("Bearer secret");
    expect(request.url).toBe("/v1/topics/a.b/records?partition=0%2C3&text=a%26b+%C3%A4&limit=5");
    response.end(JSON.stringify(PAGE));
  });
  const query = { partition: "0,3", text: "a&b ä", limit: 5, newest: undefined };
  expect(await records.list("a.b", query, going())).toEqual(PAGE);
});

test.each([
  [400, "OFFSET_OUT_OF_RANGE", "invalid_request"],
  [404, "UNKNOWN_TOPIC_OR_PARTITION", "topic_not_found"],
  [404, "RECORDS_DISABLED", "records_disabled"],
  [413, "MESSAGE_TOO_LARGE", "request_too_large"],
  [429, "TOO_MANY_STREAMS", "busy"],
  [503, "BROKER_NOT_AVAILABLE", "not_ready"],
])("%d %s is %s, with the broker's words", async (status, name, code) => {
  const records = await recordsOf((_request, response) => {
    response.writeHead(status, { "retry-after": "7" });
    response.end(JSON.stringify({ error: { code: name, message: "what is wrong" } }));
  });
  const expected = { code, kafkaError: name, said: "what is wrong", retryAfterSeconds: 7 };
  await expect(records.list("t", {}, going())).rejects.toMatchObject(expected);
  await expect(records.produce("t", { records: [] })).rejects.toMatchObject(expected);
  await expect(records.stream("t", {}, going())).rejects.toMatchObject(expected);
});

test("an older broker has no such page", async () => {
  const records = await recordsOf((_request, response) => response.writeHead(404).end());
  await expect(records.list("t", {}, going())).rejects.toMatchObject({ code: "unsupported" });
});

test("a scan may take longer than a broker's other answers", async () => {
  const records = await recordsOf((_request, response) => {
    setTimeout(() => response.end(JSON.stringify(PAGE)), 2_200);
  });
  expect((await records.list("t", { max_wait_ms: 2_000 }, going())).end).toBe(true);
});

test("a stream gives items with their cursors, and ends with its error", async () => {
  const records = await recordsOf((request, response) => {
    expect(request.url).toBe("/v1/topics/t/records/stream?from=latest");
    expect(request.headers.accept).toBe("text/event-stream");
    response.write('event: record\nid: a\ndata: {"record":{"offset":"1"}}\n\n');
    response.write('event: progress\nid: b\ndata: {"progress":{}}\n\n: ping\n\n');
    response.write('event: error\ndata: {"error":{"code":"X","message":"over"}}\n\n');
    response.write('event: record\nid: c\ndata: {"record":{}}\n\n');
  });
  const items = [];
  for await (const item of await records.stream("t", { from: "latest" }, going())) items.push(item);
  expect(items).toEqual([
    { cursor: "a", item: { record: { offset: "1" } } },
    { cursor: "b", item: { progress: {} } },
    { cursor: "b", item: { error: { code: "X", message: "over" } } },
  ]);
});

test.each([
  ["a body that ends", (response: { end(text: string): void }) => response.end(""), "unreachable"],
  [
    "an item that is no JSON",
    (response: { end(text: string): void }) => response.end("data: {\n\n"),
    "malformed_answer",
  ],
  [
    "an item of another kind",
    (response: { end(text: string): void }) => response.end('data: {"a":1}\n\n'),
    "malformed_answer",
  ],
])("%s is a failure and no silent end", async (_, answer, code) => {
  const records = await recordsOf((_request, response) => answer(response));
  const stream = await records.stream("t", {}, going());
  await expect(stream.next()).rejects.toMatchObject({ code });
});

test("a stream that nobody reads any more closes its connection", async () => {
  let closed: Promise<unknown> | undefined;
  const records = await recordsOf((request, response) => {
    closed = once(request.socket, "close");
    response.write('id: a\ndata: {"record":{}}\n\n');
  });
  const left = new AbortController();
  await records.stream("t", {}, left.signal);
  left.abort();
  await closed;

  const stream = await records.stream("t", {}, going());
  await stream.next();
  await stream.return();
  await closed;
});
