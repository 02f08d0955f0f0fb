/** Records over REST beside Kafka's own protocol: what one writes the other reads, byte for byte. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Consumer, Producer } from "@platformatic/kafka";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  createCluster,
  createTopic,
  credentials,
  deleteCluster,
  type Json,
  rest,
  type TestCluster,
  unique,
} from "../product.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await createCluster(unique("http-records"));
});
afterAll(async () => {
  await deleteCluster(cluster.id);
});

async function newTopic(partitions: number): Promise<{ topic: string; path: string }> {
  const topic = unique("topic");
  await createTopic(cluster.id, topic, partitions);
  return { topic, path: `/v1/clusters/${cluster.id}/topics/${topic}/records` };
}

function producer(): Producer<Buffer, Buffer, Buffer, Buffer> {
  return new Producer({ clientId: "http-records", bootstrapBrokers: [cluster.bootstrap] });
}

const BINARY = Buffer.from([0xff, 0x00, 0xfe, 0x80]);
const text = (data: string) => ({ encoding: "text", data });

test("what is produced over REST is what a Kafka client reads", async () => {
  const { topic, path } = await newTopic(1);
  const produced = await rest("POST", path, {
    records: [
      {
        key: text("ä"),
        value: { encoding: "base64", data: BINARY.toString("base64") },
        headers: [{ name: "h", value: { encoding: "hex", data: "00ff" } }],
        timestamp_ms: "1700000000123",
      },
      { key: text("gone"), value: null },
    ],
  });
  expect(produced.status).toBe(200);
  expect(produced.body.results.map((result: Json) => result.offset)).toEqual(["0", "1"]);

  const consumer = new Consumer({
    clientId: "http-records",
    groupId: unique("group"),
    bootstrapBrokers: [cluster.bootstrap],
    autocommit: false,
  });
  const stream = await consumer.consume({ topics: [topic], mode: "earliest" });
  const read = [];
  for await (const message of stream) {
    read.push(message);
    if (read.length === 2) break;
  }
  await stream.close();
  await consumer.close(true);
  expect(read[0]?.key?.toString()).toBe("ä");
  expect(Buffer.compare(read[0]?.value ?? Buffer.alloc(0), BINARY)).toBe(0);
  expect(read[0]?.timestamp).toBe(1_700_000_000_123n);
  expect([...(read[0]?.headers ?? [])].map(([k, v]) => [String(k), v.toString("hex")])).toEqual([
    ["h", "00ff"],
  ]);
  expect(read[1]?.value ?? null).toBeNull();
});

test("what a Kafka client produces is read over REST, from its end or page by page", async () => {
  const { topic, path } = await newTopic(2);
  const client = producer();
  const messages = Array.from({ length: 250 }, (_, index) => ({
    topic,
    partition: index % 2,
    key: Buffer.from(`key-${index % 10}`),
    value: Buffer.from(`value ${index}`),
  }));
  await client.send({ messages });
  await client.close();

  const newest = await rest("GET", `${path}?newest=3`);
  expect(newest.body.records).toHaveLength(3);
  expect(newest.body.end).toBe(true);

  const seen: string[] = [];
  let query = "from=earliest&limit=40";
  for (let pages = 0; pages < 20; pages += 1) {
    const { body } = await rest("GET", `${path}?${query}`);
    seen.push(...body.records.map((each: Json) => `${each.partition}:${each.offset}`));
    if (body.end) break;
    query = `cursor=${body.cursor}&limit=40`;
  }
  expect(seen).toHaveLength(250);
  expect(new Set(seen).size).toBe(250);

  const byKey = await rest("GET", `${path}?from=earliest&key=key-3&limit=1000`);
  expect(byKey.body.records).toHaveLength(25);
  const byText = await rest("GET", `${path}?from=earliest&text=value%2024&limit=1000`);
  expect(byText.body.records).toHaveLength(11);
  const beyond = await rest("GET", `${path}?offset=999&partition=0`);
  expect([beyond.status, beyond.body.errors[0].pointer]).toEqual([400, "/offset"]);
});

test("a stream that was cut continues after the last record received", async () => {
  const { topic, path } = await newTopic(1);
  const client = producer();
  const send = (from: number) =>
    client.send({
      messages: Array.from({ length: 10 }, (_, index) => ({
        topic,
        partition: 0,
        value: Buffer.from(String(from + index)),
      })),
    });
  await send(0);
  const first = await readStream(`${path}/stream?from=earliest`, 4);
  await send(10);
  const rest_ = await readStream(`${path}/stream?cursor=${first.at(-1)?.cursor}`, 16);
  const values = [...first, ...rest_].map(({ record }) => record.value.data);
  expect(values).toEqual(Array.from({ length: 20 }, (_, index) => String(index)));
  await client.close();
});

/** Of a topic that holds far more than all sockets between: 94 MiB. */
const BACKLOG_RECORDS = 1_500;
const RECORD_BYTES = 64 * 1024;
/** Between two points of a metric; brokers are read as often. */
const STEP_SECONDS = 2;
/** One batch, below `max.message.bytes`. */
const BATCH_RECORDS = 15;

test("a reader that stops reading costs the broker no bytes within two seconds", async () => {
  const { topic, path } = await newTopic(1);
  const client = producer();
  const value = Buffer.alloc(RECORD_BYTES, "x");
  for (let sent = 0; sent < BACKLOG_RECORDS; sent += BATCH_RECORDS) {
    const messages = Array.from({ length: BATCH_RECORDS }, () => ({ topic, partition: 0, value }));
    await client.send({ messages });
  }
  await client.close();
  const opened = Date.now();
  const socket = await openUnread(`${path}/stream?from=earliest`);
  await sleep(14_000);
  // A rate needs a reading of the broker from before the stream was opened.
  const from = opened - 3 * STEP_SECONDS * 1_000;
  const query = `from=${from}&to=${Date.now()}&step=${STEP_SECONDS}`;
  const { body } = await rest("GET", `/v1/clusters/${cluster.id}/metrics?${query}`);
  const { points } = body.series.find((each: Json) => each.name === "bytes_out_rate");
  const measured: [number, number][] = points.filter(([, rate]: [number, number | null]) => rate);
  // What the sockets between hold, and no more: the rest of the backlog stays where it is.
  const fetched = measured.reduce((sum, [, rate]) => sum + rate * STEP_SECONDS, 0);
  expect(fetched).toBeGreaterThan(RECORD_BYTES);
  expect(fetched).toBeLessThan((BACKLOG_RECORDS * RECORD_BYTES) / 2);
  // Two seconds, and the steps over which a rate is spread where a reading of the broker comes late.
  const late = measured.filter(([at]) => at > opened + 2_000 + 3 * STEP_SECONDS * 1_000);
  expect(late).toEqual([]);

  let read = 0;
  socket.on("data", (chunk: Buffer) => {
    read += chunk.length;
  });
  socket.resume();
  await expect
    .poll(() => read, { timeout: 60_000 })
    .toBeGreaterThan(BACKLOG_RECORDS * RECORD_BYTES);
  socket.destroy();
}, 180_000);

async function readStream(path: string, count: number): Promise<Json[]> {
  const left = new AbortController();
  const answer = await fetch(new URL(path, credentials.apiUrl), {
    headers: { authorization: `Bearer ${credentials.apiKey}` },
    signal: left.signal,
  });
  const items: Json[] = [];
  let tail = "";
  for await (const chunk of answer.body!.pipeThrough(new TextDecoderStream())) {
    const lines = (tail + chunk).split("\n");
    tail = lines.pop() ?? "";
    items.push(...lines.map((line) => JSON.parse(line)).filter((item) => item.record));
    if (items.length >= count) break;
  }
  left.abort();
  return items.slice(0, count);
}

/** A connection that has asked and reads nothing. */
async function openUnread(path: string): Promise<Socket> {
  const { hostname, port } = new URL(credentials.apiUrl);
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  socket.pause();
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer ${credentials.apiKey}\r\n\r\n`,
  );
  return socket;
}
