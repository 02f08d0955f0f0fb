import { once } from "node:events";
import type { Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { serve } from "@hono/node-server";
import { setUp } from "@millrace/testkit";
import { expect, test, vi } from "vitest";
import { apiFixture, keyOfRole, runningCluster } from "./fixture.ts";
import { json } from "./record-broker.ts";

const fixture = apiFixture();
const RESULTS = { results: [{ partition: 0, offset: "0", timestamp_ms: "0" }] };
let server: Server;
let records: string;
const produceByTrpc = "/trpc/record.produce";

setUp(async () => {
  server = serve({ fetch: fixture.app.fetch, hostname: "127.0.0.1", port: 0 }) as Server;
  await once(server, "listening");
  const { cluster } = await runningCluster(fixture.db, fixture.ours, "slots");
  records = `/v1/clusters/${cluster.id}/topics/orders/records`;
  return () => {
    server.closeAllConnections();
    server.close();
  };
});

/** A connection that has sent a request's head, and a first chunk of the body where it has one. */
async function begun(method: "GET" | "POST", path: string, apiKey?: string): Promise<Socket> {
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  socket.on("error", () => undefined);
  await once(socket, "connect");
  const head = [`${method} ${path} HTTP/1.1`, "Host: api"];
  if (apiKey !== undefined) head.push(`Authorization: Bearer ${apiKey}`);
  if (method === "POST") head.push("Content-Type: application/json", "Transfer-Encoding: chunked");
  socket.write(`${head.join("\r\n")}\r\n\r\n${method === "POST" ? "1\r\n{\r\n" : ""}`);
  return socket;
}

async function statusOf(socket: Socket): Promise<number> {
  const [chunk] = await once(socket, "data");
  socket.destroy();
  return Number(String(chunk).split(" ")[1]);
}

function produce(): Promise<Response> {
  return fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${records}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${fixture.ours.apiKey}`,
      "content-type": "application/json",
    },
    body: JSON.stringify({ records: [{ value: null }] }),
  });
}

test("an unauthenticated caller's large body is refused before it is read", async () => {
  expect(await statusOf(await begun("POST", records))).toBe(401);
  expect(await statusOf(await begun("POST", produceByTrpc))).toBe(401);
});

test("a large body of a role that may not write is refused before it is read", async () => {
  const viewer = await keyOfRole(fixture.db, fixture.ours, "viewer");
  expect(await statusOf(await begun("POST", records, viewer))).toBe(403);
  expect(await statusOf(await begun("POST", produceByTrpc, viewer))).toBe(403);
});

test("a large body is read only in a slot, which a caller that leaves gives back", async () => {
  fixture.records.answer = (response) => json(response, 200, RESULTS);
  const uploads = await Promise.all(
    [records, records, records, produceByTrpc].map((path) =>
      begun("POST", path, fixture.ours.apiKey),
    ),
  );
  await vi.waitFor(async () => {
    // A request of ours may have had the slot of one that was refused.
    uploads.push(await begun("POST", records, fixture.ours.apiKey));
    expect((await produce()).status).toBe(429);
  }, 20_000);
  for (const path of [records, produceByTrpc]) {
    expect(await statusOf(await begun("POST", path, fixture.ours.apiKey))).toBe(429);
  }
  for (const upload of uploads) upload.destroy();
  await vi.waitFor(async () => expect((await produce()).status).toBe(200), 20_000);
  expect((await produce()).status).toBe(200);
});

test("a page holds its slot until it is sent", async () => {
  const data = "x".repeat(24 * 1024 * 1024);
  const value = { encoding: "text", data, bytes: data.length, truncated: false };
  const record = {
    ...{ partition: 0, offset: "0", timestamp_ms: "0", timestamp_type: "create_time" },
    ...{ key: null, value, tombstone: false, headers: [], size_bytes: data.length },
  };
  const page = {
    ...{ records: [record], cursor: "c", end: true, scanned_records: 1, scanned_bytes: 1 },
    partitions: [],
  };
  fixture.records.asked.length = 0;
  let answered = 0;
  fixture.records.answer = (response) => {
    json(response, 200, page);
    response.on("close", () => {
      answered += 1;
    });
  };
  const readers: Socket[] = [];
  for (let opened = 0; opened < 3; opened += 1) {
    const reader = await begun("GET", `${records}?max_bytes=8388608`, fixture.ours.apiKey);
    reader.pause();
    readers.push(reader);
  }
  // The broker's answers are here; what is left is to send them.
  await vi.waitFor(() => expect(answered).toBe(3), 20_000);
  const refused = () => begun("GET", records, fixture.ours.apiKey).then(statusOf);
  expect(await refused()).toBe(429);
  for (const reader of readers) reader.destroy();
  fixture.records.answer = (response) => json(response, 200, { ...page, records: [] });
  await vi.waitFor(async () => expect(await refused()).toBe(200), 20_000);
});
