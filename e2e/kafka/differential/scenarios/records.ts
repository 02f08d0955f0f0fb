/** Writing, reading and deleting records, and offsets by time and epoch. */
import type { Json } from "../../../product.ts";
import {
  batch,
  createTopic,
  fetch,
  listOffsets,
  type ProduceOptions,
  produce,
} from "../requests.ts";
import type { Scene } from "../scene.ts";

/** Where fields stand in a batch of magic 2. */
const [LENGTH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT, COUNT_AT] = [
  11, 16, 17, 21, 26, 60,
];
const [LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED] = [-1, -2, -3, -4, -5];
const TRANSACTIONAL_CONTROL = 0x30;
const PRODUCER = 4_711;
const DAY_MS = 86_400_000;

export async function produceRecords(scene: Scene): Promise<void> {
  await createTopic(scene, "w", 2);
  const send = (step: string, batches: Json, options: ProduceOptions = {}) =>
    produce(scene, step, "w", batches, options);
  await send("valid", [batch(["a", "b"])]);
  await send("acks 1", [batch(["a"])], { acks: 1 });
  await send("acks 0", [batch(["a"])], { acks: 0 });
  const unacknowledged = { acks: 0, connection: "unacknowledged" };
  await send("acks 0, unknown partition", [batch(["a"])], { ...unacknowledged, partition: 7 });
  await scene.send(
    "after an error of acks 0",
    "ApiVersions",
    {},
    { ...unacknowledged, reconnects: false, version: 0, settles: false },
  );
  await send("acks 2", [batch(["a"])], { acks: 2 });
  await send("acks -2", [batch(["a"])], { acks: -2 });
  await send("unknown partition", [batch(["a"])], { partition: 7 });
  await send("negative partition", [batch(["a"])], { partition: -1 });
  await produce(scene, "unknown topic", "absent", [batch(["a"])]);
  await send("no batch", []);
  await send("two batches", [batch(["a"]), batch(["b"])]);
  for (const codec of ["gzip", "snappy", "lz4", "zstd"]) {
    await send(`codec ${codec}`, [batch(["a", "b"], { codec })]);
  }
  await send("zstd, old version", [batch(["a"], { codec: "zstd" })], {
    version: scene.version("Produce", { max: 6 }),
  });
  const changed = (at: number, to: number, further: Json = {}) => [
    batch(["a", "b"], { changes: [{ at, to }], ...further }),
  ];
  await send("bad CRC", changed(CRC_AT, 1, { badCrc: true }));
  await send("bad magic", changed(MAGIC_AT, 7));
  await send("magic 1", [batch(["a"], { magic: 1 })]);
  await send("magic 0", [batch(["a"], { magic: 0 })]);
  await send("bad length", changed(LENGTH_AT, 0));
  await send("bad codec", changed(ATTRIBUTES_AT + 1, 7));
  await send("bad count", changed(COUNT_AT, 9));
  await send("bad last offset delta", changed(LAST_DELTA_AT, 9));
  await send("cut", [batch(["a", "b"], { cut: 3 })]);
  await send("no record in the batch", [batch([])]);
  const control = { changes: [{ at: ATTRIBUTES_AT + 1, to: TRANSACTIONAL_CONTROL }] };
  await send("control batch", [batch(["a"], { ...control, producerId: PRODUCER })]);
  await send("log append time of the client's", [batch(["a"], { logAppendTime: true })]);
  await send("headers", [{ records: [{ key: "k", value: "v", headers: { h: "1", none: null } }] }]);
  await send("null key and value", [{ records: [{ key: null, value: null }] }]);
  await send("null", null);
  await createTopic(scene, "based");
  await produce(scene, "base offset of the client's", "based", [batch(["a"], { baseOffset: 100 })]);
  await produceOnceMore(scene);
  await produceConfigured(scene);
}

/** Idempotent producers. */
async function produceOnceMore(scene: Scene): Promise<void> {
  await createTopic(scene, "i");
  const send = (
    step: string,
    producerId: number,
    producerEpoch: number,
    baseSequence: number,
    values = ["a"],
  ) => produce(scene, step, "i", [batch(values, { producerId, producerEpoch, baseSequence })]);
  await send("first sequence is not 0", PRODUCER, 0, 5);
  await send("sequence 0", PRODUCER + 1, 0, 0, ["a", "b"]);
  await send("the same again", PRODUCER + 1, 0, 0, ["a", "b"]);
  await send("next sequence", PRODUCER + 1, 0, 2);
  await send("a gap", PRODUCER + 1, 0, 9);
  await send("an older one", PRODUCER + 1, 0, 1);
  for (let sequence = 3; sequence < 10; sequence++) {
    await send(`sequence ${sequence}`, PRODUCER + 1, 0, sequence);
  }
  await send("one that is no longer remembered", PRODUCER + 1, 0, 2);
  await send("newer epoch, sequence not 0", PRODUCER + 1, 1, 10);
  await send("newer epoch", PRODUCER + 1, 1, 0);
  await send("older epoch", PRODUCER + 1, 0, 10);
  await send("epoch without a producer", -1, 3, 0);
  const two = [
    batch(["a"], { producerId: PRODUCER + 3, baseSequence: 0 }),
    batch(["b"], { producerId: PRODUCER + 3, baseSequence: 1 }),
  ];
  await produce(scene, "two batches of a producer", "i", two);
  await produce(
    scene,
    "acks 1 of an idempotent producer",
    "i",
    [batch(["a"], { producerId: PRODUCER + 4 })],
    { acks: 1 },
  );
  await scene.send("producers", "DescribeProducers", {
    topics: [{ name: scene.name("i"), partitionIndexes: [0, 7] }],
  });
  await scene.send("producers of an unknown topic", "DescribeProducers", {
    topics: [{ name: scene.name("absent"), partitionIndexes: [0] }],
  });
}

async function produceConfigured(scene: Scene): Promise<void> {
  await createTopic(scene, "compacted", 1, { "cleanup.policy": "compact" });
  await produce(scene, "keyless on compacted", "compacted", [batch(["a"])]);
  const mixed = [{ records: [{ key: "k", value: "v" }, { value: "v" }] }];
  await produce(scene, "one keyless on compacted", "compacted", mixed);
  await produce(scene, "keyed on compacted", "compacted", [
    { records: [{ key: "k", value: "v" }] },
  ]);
  await createTopic(scene, "small", 1, { "max.message.bytes": "200" });
  await produce(scene, "too large", "small", [batch(["x".repeat(300)])]);
  await produce(scene, "small enough when compressed", "small", [
    batch(["x".repeat(300)], { codec: "gzip" }),
  ]);
  await produce(scene, "two batches, each small enough", "small", [
    batch(["x".repeat(100)]),
    batch(["x".repeat(100)]),
  ]);
  await produce(scene, "one small enough, one too large", "small", [
    batch(["x"]),
    batch(["x".repeat(300)]),
  ]);
  const bounds = {
    "message.timestamp.before.max.ms": "60000",
    "message.timestamp.after.max.ms": "60000",
  };
  for (const topic of ["old", "new", "mixed", "timed"]) await createTopic(scene, topic, 1, bounds);
  await createTopic(scene, "ahead");
  const aged = (age: number) => [{ records: [{ value: "v", age }] }];
  await produce(scene, "too old", "old", aged(-DAY_MS));
  await produce(scene, "too new", "new", aged(DAY_MS));
  const mixedAges = [
    {
      records: [
        { value: "v", age: 0 },
        { value: "w", age: -DAY_MS },
      ],
    },
  ];
  await produce(scene, "one too old", "mixed", mixedAges);
  await produce(scene, "in time", "timed", aged(-1_000));
  await produce(scene, "far ahead on a topic without bounds", "ahead", aged(2 * DAY_MS));
  await createTopic(scene, "appended", 1, { "message.timestamp.type": "LogAppendTime" });
  await produce(scene, "log append time", "appended", aged(-DAY_MS));
  await fetch(scene, "read with log append time", "appended");
  await createTopic(scene, "zipped", 1, { "compression.type": "gzip" });
  await produce(scene, "topic's own codec", "zipped", [batch(["a", "b"])]);
  await fetch(scene, "read with the topic's codec", "zipped");
  await createTopic(scene, "insync", 1, { "min.insync.replicas": "2" });
  await produce(scene, "too few in sync", "insync", [batch(["a"])]);
  await produce(scene, "too few in sync, acks 1", "insync", [batch(["a"])], { acks: 1 });
}

export async function fetchRecords(scene: Scene): Promise<void> {
  await createTopic(scene, "r", 2, { "retention.ms": "-1" });
  const timed = (values: string[], timestamp: number) => ({
    records: values.map((value, at) => ({ key: `k${at}`, value, timestamp: timestamp + at })),
  });
  for (const [at, value] of ["a", "b", "c"].entries()) {
    await produce(scene, `prepare ${value}`, "r", [
      timed([value, `${value}${value}`], 1_000 + at * 100),
    ]);
  }
  await fetch(scene, "from the start", "r");
  await fetch(scene, "from the middle of a batch", "r", { offset: 3 });
  await fetch(scene, "from the end", "r", { offset: 6 });
  await fetch(scene, "after the end", "r", { offset: 7 });
  await fetch(scene, "negative offset", "r", { offset: -5 });
  await fetch(scene, "an empty partition", "r", { partition: 1 });
  await fetch(scene, "unknown partition", "r", { partition: 9 });
  await fetch(scene, "unknown topic", "absent");
  await fetch(scene, "one byte of a partition", "r", { partitionMaxBytes: 1 });
  await fetch(scene, "one byte", "r", { maxBytes: 1 });
  await fetch(scene, "no byte", "r", { maxBytes: 0 });
  await fetch(scene, "committed only", "r", { isolationLevel: 1 });
  await fetch(scene, "bad isolation level", "r", { isolationLevel: 5 });
  const version = scene.version("Fetch", { min: 9 });
  await fetch(scene, "current epoch", "r", { currentLeaderEpoch: "@epoch-r", version });
  await fetch(scene, "future epoch", "r", { currentLeaderEpoch: 9, version });
  const diverging = scene.version("Fetch", { min: 12 });
  await fetch(scene, "last fetched epoch", "r", {
    offset: 2,
    lastFetchedEpoch: "@epoch-r",
    version: diverging,
  });
  await fetch(scene, "future last fetched epoch", "r", {
    offset: 2,
    lastFetchedEpoch: 5,
    version: diverging,
  });
  await fetchSessions(scene);
  await offsets(scene);
}

async function fetchSessions(scene: Scene): Promise<void> {
  const version = scene.version("Fetch", { min: 7 });
  const ids = { session: (answer: Json) => answer.sessionId };
  const known = { sessionId: "@session", version };
  await fetch(scene, "session: begins", "r", { sessionEpoch: 0, version, ids, settles: false });
  await fetch(scene, "session: goes on", "r", {
    ...known,
    sessionEpoch: 1,
    offset: 6,
    settles: false,
  });
  await fetch(scene, "session: epoch out of turn", "r", {
    ...known,
    sessionEpoch: 7,
    settles: false,
  });
  await fetch(scene, "session: unknown", "r", { sessionId: 123_456_789, sessionEpoch: 3, version });
  await fetch(scene, "session: unknown, ends", "r", {
    sessionId: 123_456_789,
    sessionEpoch: -1,
    version,
  });
  await fetch(scene, "session: ends", "r", { ...known, sessionEpoch: -1, settles: false });
  await fetch(scene, "session: after its end", "r", { ...known, sessionEpoch: 2, settles: false });
  await fetch(scene, "session: negative epoch", "r", { sessionEpoch: -7, version });
}

async function offsets(scene: Scene): Promise<void> {
  const at = (step: string, timestamp: number, further: Parameters<typeof listOffsets>[4] = {}) =>
    listOffsets(scene, `offsets: ${step}`, "r", timestamp, further);
  await at("latest", LATEST);
  await at("earliest", EARLIEST);
  await at("latest, committed only", LATEST, {
    isolationLevel: 1,
    version: scene.version("ListOffsets", { min: 2 }),
  });
  for (const timestamp of [0, 999, 1_000, 1_001, 1_050, 1_100, 1_201, 1_202, 9_999]) {
    await at(`time ${timestamp}`, timestamp);
  }
  await at("max timestamp", MAX_TIMESTAMP);
  await at("earliest local", EARLIEST_LOCAL);
  await at("latest tiered", LATEST_TIERED);
  await at("unknown special time", -9);
  await at("empty partition, latest", LATEST, { partition: 1 });
  await at("empty partition, time", 5, { partition: 1 });
  await at("empty partition, max timestamp", MAX_TIMESTAMP, {
    partition: 1,
    version: scene.version("ListOffsets", { min: 7 }),
  });
  await at("unknown partition", LATEST, { partition: 9 });
  await listOffsets(scene, "offsets: unknown topic", "absent", LATEST);
  const version = scene.version("ListOffsets", { min: 4 });
  await at("future epoch", LATEST, { currentLeaderEpoch: 9, version });
  const one = (partition: number, further: Json) => ({
    partition,
    currentLeaderEpoch: -1,
    leaderEpoch: "@epoch-r",
    ...further,
  });
  const epochs = (step: string, topic: string, partition: Json) =>
    scene.send(`epoch: ${step}`, "OffsetForLeaderEpoch", (version) => ({
      ...(version >= 3 ? { replicaId: -1 } : {}),
      topics: [{ topic: scene.name(topic), partitions: [partition] }],
    }));
  await epochs("present", "r", one(0, {}));
  await epochs("empty partition", "r", one(1, {}));
  await epochs("future", "r", one(0, { leaderEpoch: 5 }));
  await epochs("none", "r", one(0, { leaderEpoch: -1 }));
  await epochs("current is in the future", "r", one(0, { currentLeaderEpoch: 9 }));
  await epochs("current", "r", one(0, { currentLeaderEpoch: "@epoch-r" }));
  await epochs("unknown partition", "r", one(9, {}));
  await epochs("unknown topic", "absent", one(0, {}));
}

export async function deleteRecords(scene: Scene): Promise<void> {
  await createTopic(scene, "dr", 1);
  await createTopic(scene, "drc", 1, { "cleanup.policy": "compact" });
  await produce(scene, "prepare", "dr", [batch(["a", "b", "c", "d"])]);
  const remove = (step: string, topic: string, offset: number, partitionIndex = 0) =>
    scene.send(step, "DeleteRecords", {
      topics: [{ name: scene.name(topic), partitions: [{ partitionIndex, offset }] }],
      timeoutMs: 5_000,
    });
  await remove("some", "dr", 2);
  await remove("the same again", "dr", 2);
  await remove("before the start", "dr", 1);
  await fetch(scene, "before the start of the log", "dr", { offset: 0 });
  await fetch(scene, "from the new start", "dr", { offset: 2 });
  await listOffsets(scene, "the new start", "dr", EARLIEST);
  await remove("after the end", "dr", 9);
  await remove("negative", "dr", -5);
  await remove("all", "dr", -1);
  await listOffsets(scene, "after all", "dr", EARLIEST);
  await remove("unknown partition", "dr", 0, 7);
  await remove("unknown topic", "absent", 0);
  await remove("compacted topic", "drc", -1);
  const folders = (step: string, topics: Json) => scene.send(step, "DescribeLogDirs", { topics });
  await folders("log folders of a topic", [{ topic: scene.name("dr"), partitions: [0] }]);
  await folders("log folders of an unknown topic", [
    { topic: scene.name("absent"), partitions: [0] },
  ]);
  await folders("log folders of none", []);
  await scene.send("move to another log folder", "AlterReplicaLogDirs", {
    dirs: [{ path: "/no/such", topics: [{ name: scene.name("dr"), partitions: [0] }] }],
  });
}
