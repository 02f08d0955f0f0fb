import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { Reader, Writer } from "@platformatic/kafka";
import { afterEach, expect, test } from "vitest";
import { describeGroups } from "./group-lag.ts";
import { KafkaAdmin } from "./kafka-admin.ts";
import { OfflineTolerantAdmin } from "./offline-partitions.ts";

const LIST_OFFSETS = 2;
const METADATA = 3;
const API_VERSIONS = 18;
const DESCRIBE_CONFIGS = 32;
const KAFKA_STORAGE_ERROR = 56;
const TOPIC_AUTHORIZATION_FAILED = 29;
const TOPIC_ID = "6f1b2c3d-0000-4000-8000-000000000001";

interface FakeTopic {
  readonly name: string;
  readonly error?: number;
  /** An error code for each partition. */
  readonly partitions: readonly number[];
}

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** Speaks the wire protocol, because the library makes its errors while it reads the answers. */
async function brokerWith(topics: readonly FakeTopic[]): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    let received = Buffer.alloc(0);
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      received = Buffer.concat([received, chunk]);
      while (received.length >= 4 && received.length >= 4 + received.readInt32BE(0)) {
        const end = 4 + received.readInt32BE(0);
        socket.write(answer(received.subarray(4, end), topics, portOf(server)));
        received = received.subarray(end);
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `127.0.0.1:${portOf(server)}`;
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

function answer(frame: Buffer, topics: readonly FakeTopic[], port: number): Buffer {
  const request = Reader.from(frame);
  const api = request.readInt16();
  request.readInt16();
  const out = Writer.create().appendInt32(request.readInt32());
  request.readNullableString(false);
  request.readTaggedFields();
  if (api === API_VERSIONS) appendApis(out);
  else if (api === METADATA) appendMetadata(out.appendTaggedFields(), request, topics, port);
  else if (api === LIST_OFFSETS) appendOffsets(out.appendTaggedFields(), request, topics);
  else if (api === DESCRIBE_CONFIGS) appendNoConfigs(out.appendTaggedFields());
  else throw new Error(`the fake does not serve API ${api}`);
  const size = Buffer.alloc(4);
  size.writeInt32BE(out.length);
  return Buffer.concat([size, out.buffer]);
}

function appendApis(out: Writer): void {
  const apis: [api: number, version: number][] = [
    [LIST_OFFSETS, 9],
    [METADATA, 12],
    [API_VERSIONS, 3],
    [DESCRIBE_CONFIGS, 4],
  ];
  out
    .appendInt16(0)
    .appendArray(apis, (w, [api, version]) =>
      w.appendInt16(api).appendInt16(version).appendInt16(version),
    )
    .appendInt32(0)
    .appendTaggedFields();
}

function appendMetadata(
  out: Writer,
  request: Reader,
  topics: readonly FakeTopic[],
  port: number,
): void {
  const names = request.readNullableArray((r) => {
    r.readUUID();
    return r.readNullableString();
  });
  out
    .appendInt32(0)
    .appendArray([port], (w) =>
      w.appendInt32(1).appendString("127.0.0.1").appendInt32(port).appendString(null),
    )
    .appendString("cluster")
    .appendInt32(1)
    .appendArray(
      topics.filter(({ name }) => names?.includes(name) ?? true),
      (w, { name, error, partitions }) => {
        w.appendInt16(error ?? 0)
          .appendString(name)
          .appendUUID(TOPIC_ID)
          .appendBoolean(false);
        w.appendArray([...partitions.entries()], (p, [index, code]) => {
          p.appendInt16(code).appendInt32(index).appendInt32(1).appendInt32(0);
          p.appendArray([1], (r, node) => r.appendInt32(node), true, false);
          p.appendArray([1], (r, node) => r.appendInt32(node), true, false);
          p.appendArray(code === 0 ? [] : [1], (r, node) => r.appendInt32(node), true, false);
        }).appendInt32(0);
      },
    )
    .appendTaggedFields();
}

/** Every partition ends at 10. */
function appendOffsets(out: Writer, request: Reader, topics: readonly FakeTopic[]): void {
  request.readInt32();
  request.readInt8();
  const asked = request.readArray((r) => ({
    name: r.readString(),
    partitions: r.readArray((p) => {
      const index = p.readInt32();
      p.readInt32();
      p.readInt64();
      return index;
    }),
  }));
  out
    .appendInt32(0)
    .appendArray(asked, (w, { name, partitions }) => {
      const codes = topics.find((topic) => topic.name === name)?.partitions;
      w.appendString(name).appendArray(partitions, (p, index) => {
        p.appendInt32(index).appendInt16(codes?.[index] ?? 3);
        p.appendInt64(-1n).appendInt64(10n).appendInt32(0);
      });
    })
    .appendTaggedFields();
}

function appendNoConfigs(out: Writer): void {
  out
    .appendInt32(0)
    .appendArray([], () => {})
    .appendTaggedFields();
}

async function kafkaWith(topics: readonly FakeTopic[]): Promise<KafkaAdmin> {
  const kafka = new KafkaAdmin({ bootstrapServers: await brokerWith(topics) });
  closing.push(() => void kafka.close());
  return kafka;
}

const ONE_OFFLINE: readonly FakeTopic[] = [
  { name: "hurt", partitions: [0, KAFKA_STORAGE_ERROR, 0] },
  { name: "well", partitions: [0] },
];

test("one offline partition hid every topic of its cluster", async () => {
  const kafka = await kafkaWith(ONE_OFFLINE);
  const rest = { topicId: TOPIC_ID, replicationFactor: 1 };
  expect(await kafka.topicNames()).toEqual(["hurt", "well"]);
  expect(await kafka.listTopics()).toEqual([
    { name: "hurt", partitions: 3, ...rest },
    { name: "well", partitions: 1, ...rest },
  ]);
  expect(await kafka.describeTopic("hurt")).toMatchObject({ name: "hurt", partitions: 3 });
});

test("an error of a whole topic still fails the listing", async () => {
  const kafka = await kafkaWith([
    ...ONE_OFFLINE,
    { name: "locked", error: TOPIC_AUTHORIZATION_FAILED, partitions: [] },
  ]);
  await expect(kafka.listTopics()).rejects.toMatchObject({ code: "refused" });
});

test("one offline partition blanked the lag of every group", async () => {
  const admin = new OfflineTolerantAdmin({
    clientId: "test",
    bootstrapBrokers: [await brokerWith(ONE_OFFLINE)],
    retries: 0,
  });
  closing.push(() => void admin.close());
  const committed = (partitionIndex: number) => ({ partitionIndex, committedOffset: 4n });
  const [group] = await describeGroups({
    listGroups: async () => new Map([["readers", { id: "readers" }]]),
    describeGroups: async () => new Map(),
    listConsumerGroupOffsets: async () => [
      {
        groupId: "readers",
        topics: [
          { name: "hurt", partitions: [0, 1, 2].map(committed) },
          { name: "well", partitions: [committed(0)] },
        ],
      },
    ],
    topicListing: () => admin.topicListing(),
    listOffsets: (options: Parameters<typeof admin.listOffsets>[0]) => admin.listOffsets(options),
  } as unknown as OfflineTolerantAdmin);
  const known = { committedOffset: 4n, endOffset: 10n, lag: 6n };
  expect(group?.partitions).toEqual([
    { topic: "hurt", partition: 0, ...known },
    { ...known, topic: "hurt", partition: 1, endOffset: undefined, lag: undefined },
    { topic: "hurt", partition: 2, ...known },
    { topic: "well", partition: 0, ...known },
  ]);
});
