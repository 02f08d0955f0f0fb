import { once } from "node:events";
import type { Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { serve } from "@hono/node-server";
import { setUp } from "@millrace/testkit";
import { afterEach, expect, test, vi } from "vitest";
import { apiFixture, call, keyOfRole, runningCluster } from "./fixture.ts";
import { event } from "./record-broker.ts";

const fixture = apiFixture();
const RECORD = { partition: 0, offset: "9007199254740993", value: null };
const PROGRESS = { scanned_records: 1, scanned_bytes: 2, partitions: [] };
const ERROR = { code: "UNKNOWN_TOPIC_OR_PARTITION", message: "the topic was deleted" };
let server: Server;
let path: string;

setUp(async () => {
  server = serve({ fetch: fixture.app.fetch, hostname: "127.0.0.1", port: 0 }) as Server;
  await once(server, "listening");
  const { cluster } = await runningCluster(fixture.db, fixture.ours, "streamed");
  path = `/v1/clusters/${cluster.id}/topics/orders/records/stream`;
  return () => {
    server.closeAllConnections();
    server.close();
  };
});

afterEach(async () => {
  await vi.waitFor(() => expect(fixture.records.streams).toBe(0), 20_000);
  fixture.records.asked.length = 0;
});

function open(query = "", headers: Record<string, string> = {}, signal?: AbortSignal) {
  const { port } = server.address() as AddressInfo;
  return fetch(`http://127.0.0.1:${port}${path}${query}`, {
    headers: { authorization: `Bearer ${fixture.ours.apiKey}`, ...headers },
    ...(signal && { signal }),
  });
}

test("items are lines, or events with cursors, as the caller accepts them", async () => {
  fixture.records.answer = (response) => {
    response.write(event("record", "c1", RECORD) + event("progress", "c2", PROGRESS));
    response.end(event("error", "c3", ERROR));
  };
  const lines = await open("?from=earliest");
  expect(lines.headers.get("content-type")).toBe("application/x-ndjson");
  expect((await lines.text()).split("\n")).toEqual([
    JSON.stringify({ record: RECORD, cursor: "c1" }),
    JSON.stringify({ progress: PROGRESS, cursor: "c2" }),
    JSON.stringify({ error: ERROR, cursor: "c3" }),
    "",
  ]);
  const events = await open("?from=earliest", {
    accept: "text/event-stream",
    "accept-encoding": "gzip",
  });
  expect(events.headers.get("content-type")).toBe("text/event-stream");
  expect(events.headers.get("content-encoding")).toBeNull();
  expect(await events.text()).toBe(
    event("record", "c1", RECORD) + event("progress", "c2", PROGRESS) + event("error", "c3", ERROR),
  );
});

test("a reader that comes back continues after its last event, not at its first start", async () => {
  fixture.records.answer = (response) => response.end(event("error", "c", ERROR));
  await (await open("?newest=5&text=a", { "last-event-id": "c7" })).text();
  expect(fixture.records.asked[0]?.query).toEqual({ text: "a", cursor: "c7" });
});

test("a broker that dies is the last item, and no broken answer", async () => {
  fixture.records.answer = (response) => {
    response.write(event("record", "c1", RECORD));
    setTimeout(() => response.destroy(), 50);
  };
  const lines = (await (await open()).text()).trim().split("\n");
  expect(JSON.parse(lines.at(-1) ?? "")).toEqual({
    error: { code: "broker_unavailable", message: "The broker does not respond." },
  });
});

test("the broker's connection closes with the caller's", async () => {
  fixture.records.answer = (response) => response.write(event("record", "c", RECORD));
  const left = new AbortController();
  const answer = await open("", {}, left.signal);
  await answer.body?.getReader().read();
  expect(fixture.records.streams).toBe(1);
  left.abort();
  await vi.waitFor(() => expect(fixture.records.streams).toBe(0), 20_000);
});

test("HEAD leaves no stream behind", async () => {
  fixture.records.answer = (response) => response.write(event("record", "c", RECORD));
  const { port } = server.address() as AddressInfo;
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: "HEAD",
    headers: { authorization: `Bearer ${fixture.ours.apiKey}` },
  });
  expect(answer.status).toBe(200);
});

/** What two hops of sockets on this machine hold when nobody reads: their largest buffers. */
const SOCKETS_BYTES_MAX = 32 * 1024 * 1024;

test("a caller that stops reading stops the broker, and goes on where it stopped", async () => {
  let written = 0;
  const large = { ...RECORD, value: { data: "x".repeat(32 * 1024) } };
  fixture.records.answer = (response) => {
    const more = () => {
      while (!response.destroyed) {
        const text = event("record", String(written), large);
        written += text.length;
        if (!response.write(text)) return void response.once("drain", more);
      }
    };
    more();
  };
  const socket = await raw();
  socket.pause();
  let before = -1;
  await vi.waitFor(
    async () => {
      before = written;
      await sleep(500);
      expect(written).toBe(before);
    },
    { timeout: 20_000, interval: 1 },
  );
  expect(before).toBeGreaterThan(0);
  expect(before).toBeLessThan(SOCKETS_BYTES_MAX);

  let read = 0;
  socket.on("data", (chunk: Buffer) => {
    read += chunk.length;
  });
  socket.resume();
  await vi.waitFor(() => expect(written).toBeGreaterThan(2 * before), 20_000);
  expect(read).toBeGreaterThan(0);
  socket.destroy();
});

test("one key has a bounded number of streams, and gets them back", async () => {
  fixture.records.answer = (response) => response.write(event("record", "c", RECORD));
  const left = new AbortController();
  for (let held = 0; held < 8; held += 1) {
    expect((await open("", {}, left.signal)).status).toBe(200);
  }
  const refused = await open();
  expect(refused.status).toBe(429);
  expect(refused.headers.get("retry-after")).toBe("10");
  const member = await keyOfRole(fixture.db, fixture.ours, "developer");
  const other = await open("", { authorization: `Bearer ${member}` }, left.signal);
  expect(other.status).toBe(200);
  left.abort();
  await vi.waitFor(() => expect(fixture.records.streams).toBe(0), 20_000);
  const again = new AbortController();
  expect((await open("", {}, again.signal)).status).toBe(200);
  again.abort();
});

test("a stream that the broker refuses gives its slot back", async () => {
  fixture.records.answer = (response) => response.writeHead(503).end();
  for (let tried = 0; tried < 10; tried += 1) {
    const answer = await call(fixture.app, "GET", path, { apiKey: fixture.ours.apiKey });
    expect(answer.status).toBe(503);
  }
});

/** A connection whose reading is in our own hands. */
async function raw(): Promise<Socket> {
  const { port } = server.address() as AddressInfo;
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer ${fixture.ours.apiKey}\r\n\r\n`,
  );
  return socket;
}
