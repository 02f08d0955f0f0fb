/** What is malformed gets its error, and nothing else is disturbed. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Admin, Producer, stringSerializers } from "@platformatic/kafka";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  createCluster,
  createTopic,
  credentials,
  deleteCluster,
  rest,
  type TestCluster,
  unique,
} from "../product.ts";

const CLOSE_MS_MAX = 10_000;
const CORRUPT_MESSAGE = 2;
const PRODUCE = 0;
const PRODUCE_VERSION = 3;

describe("malformed input", () => {
  const topic = "bystander";
  let cluster: TestCluster;
  let bystander: Producer<string, string, string, string>;
  let sent = 0n;

  beforeAll(async () => {
    cluster = await createCluster(unique("bad-input"));
    await createTopic(cluster.id, topic, 1);
    bystander = new Producer({
      clientId: "bystander",
      bootstrapBrokers: [cluster.bootstrap],
      serializers: stringSerializers,
    });
  });
  afterAll(async () => {
    await bystander.close();
    await deleteCluster(cluster.id);
  });

  /** A client that was connected before goes on as if nothing had happened. */
  async function expectUndisturbed(): Promise<void> {
    const { offsets } = await bystander.send({ messages: [{ topic, value: "on", partition: 0 }] });
    expect(offsets?.[0]?.offset).toBe(sent);
    sent += 1n;
  }

  async function dial(): Promise<Socket> {
    const [host, port] = cluster.bootstrap.split(":") as [string, string];
    const socket = connect(Number(port), host);
    await once(socket, "connect");
    return socket;
  }

  async function expectClosed(socket: Socket): Promise<void> {
    socket.on("error", () => {});
    socket.resume();
    const closed = once(socket, "close").then(() => true);
    expect(await Promise.race([closed, sleep(CLOSE_MS_MAX, false)]), "connection closed").toBe(
      true,
    );
  }

  it("a frame of noise ends its own connection", async () => {
    await expectUndisturbed();
    const socket = await dial();
    const noise = Buffer.alloc(64, 0xee);
    socket.write(Buffer.concat([int32(noise.length), noise]));
    await expectClosed(socket);
    await expectUndisturbed();
  });

  it.for([
    ["200 MB", 200_000_000],
    ["negative", -5],
  ] as const)("a frame length of %s ends its own connection", async ([, length]) => {
    await expectUndisturbed();
    const socket = await dial();
    socket.write(int32(length));
    await expectClosed(socket);
    await expectUndisturbed();
  });

  it("a batch with a wrong CRC is CORRUPT_MESSAGE, and its connection goes on", async () => {
    await expectUndisturbed();
    const socket = await dial();
    for (const correlationId of [7, 8]) {
      socket.write(produceFrame(correlationId, topic, corruptBatch()));
      const reply = await frame(socket);
      expect(reply.readInt32BE(0)).toBe(correlationId);
      expect(errorCode(reply, topic)).toBe(CORRUPT_MESSAGE);
    }
    socket.destroy();
    await expectUndisturbed();
  });

  it("an unknown API key ends its own connection", async () => {
    const socket = await dial();
    socket.write(Buffer.concat([int32(10), int16(999), int16(0), int32(1), int16(-1)]));
    await expectClosed(socket);
    await expectUndisturbed();
  });

  it("a name that no topic may have is refused", async () => {
    const admin = new Admin({ clientId: "bad", bootstrapBrokers: [cluster.bootstrap] });
    await expect(
      admin.createTopics({ topics: ["no spaces"], partitions: 1, replicas: 1 }),
    ).rejects.toThrow();
    await admin.close();
    await expectUndisturbed();
  });
});

describe("REST refuses", () => {
  it("a wrong API key with 401", async () => {
    const { status, body, headers } = await rest("GET", "/v1/clusters", undefined, {
      authorization: "Bearer mr_wrong",
    });
    expect(status).toBe(401);
    expect(headers.get("content-type")).toContain("application/problem+json");
    expect(body.code).toBe("unauthenticated");
  });

  it("a wrong password with 401, and says no more than that", async () => {
    const reply = (email: string) =>
      fetch(`${credentials.apiUrl}/api/auth/sign-in/email`, {
        method: "POST",
        headers: { "content-type": "application/json", origin: credentials.consoleUrl },
        body: JSON.stringify({ email, password: "certainly wrong" }),
      });
    const known = await reply(credentials.email);
    const unknown = await reply("nobody@example.com");
    expect([known.status, unknown.status]).toEqual([401, 401]);
    expect(await known.text()).toBe(await unknown.text());
  });

  it("a cluster that belongs to nobody here with 404", async () => {
    const { status, body } = await rest("GET", "/v1/clusters/clu_01JCXXXXXXXXXXXXXXXXXXXXXX");
    expect(status).toBe(404);
    expect(body.code).toBe("not_found");
  });

  it("an unknown field with 400 and its place", async () => {
    const { status, body } = await rest("POST", "/v1/clusters", { name: "abc", colour: "red" });
    expect(status).toBe(400);
    expect(body.errors[0].pointer).toContain("colour");
  });

  it("a body that is no JSON with 400", async () => {
    expect((await rest("POST", "/v1/clusters", "{nope")).status).toBe(400);
  });

  it("a request line of 40 KiB neither at the API nor at the console", async () => {
    const query = `?ignored=${"x".repeat(40_000)}`;
    const urls = [`${credentials.apiUrl}/healthz`, `${credentials.consoleUrl}/sign-in`];
    const statuses = urls.map(async (url) => (await fetch(url + query)).status);
    expect(await Promise.all(statuses)).toEqual([200, 200]);
  });
});

describe("a name already taken", () => {
  it("is 409 cluster_name_taken", async () => {
    const cluster = await createCluster(unique("taken"));
    const { status, body } = await rest("POST", "/v1/clusters", { name: cluster.name });
    await deleteCluster(cluster.id);
    expect(status).toBe(409);
    expect(body.code).toBe("cluster_name_taken");
  });
});

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function text(value: string): Buffer {
  return Buffer.concat([int16(value.length), Buffer.from(value)]);
}

/** A Produce request, version 3: header, then transactional id, acks, timeout, one partition. */
function produceFrame(correlationId: number, topic: string, batch: Buffer): Buffer {
  const request = Buffer.concat([
    int16(PRODUCE),
    int16(PRODUCE_VERSION),
    int32(correlationId),
    text("raw"),
    int16(-1),
    int16(-1),
    int32(5_000),
    int32(1),
    text(topic),
    int32(1),
    int32(0),
    int32(batch.length),
    batch,
  ]);
  return Buffer.concat([int32(request.length), request]);
}

/** A record batch whose fields are right but for its CRC. */
function corruptBatch(): Buffer {
  const batch = Buffer.alloc(61 + 8);
  batch.writeInt32BE(batch.length - 12, 8);
  batch.writeInt32BE(-1, 12);
  batch.writeInt8(2, 16);
  batch.writeUInt32BE(0xdeadbeef, 17);
  batch.writeBigInt64BE(-1n, 43);
  batch.writeInt16BE(-1, 51);
  batch.writeInt32BE(-1, 53);
  batch.writeInt32BE(1, 57);
  batch.set([14, 0, 0, 0, 1, 2, 0x78, 0], 61);
  return batch;
}

async function frame(socket: Socket): Promise<Buffer> {
  let bytes = Buffer.alloc(0);
  for (;;) {
    if (bytes.length >= 4 && bytes.length >= 4 + bytes.readInt32BE(0)) return bytes.subarray(4);
    const [chunk] = (await once(socket, "data")) as [Buffer];
    bytes = Buffer.concat([bytes, chunk]);
  }
}

/** The error code of the only partition in a Produce answer, version 3. */
function errorCode(reply: Buffer, topic: string): number {
  const partition = 4 + 4 + 2 + topic.length + 4;
  return reply.readInt16BE(partition + 4);
}
