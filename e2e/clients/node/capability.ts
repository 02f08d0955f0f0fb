/** Tries one capability of a Node.js client: its arguments name the client and the capability, which capabilities.ts describes. */
import { setTimeout as sleep } from "node:timers/promises";
import {
  Admin,
  type CompressionAlgorithmValue,
  Consumer,
  type ConsumerOptions,
  Producer,
  stringDeserializers,
  stringSerializers,
} from "@platformatic/kafka";
import { CompressionTypes, Kafka, type Producer as KafkajsProducer, logLevel } from "kafkajs";

const { CLIENT_BOOTSTRAP = "", CLIENT_TOPIC = "", CLIENT_GROUP = "" } = process.env;
const RECORDS = 10;
const PARTITIONS = 2;
const WAIT_MS_MAX = 40_000;
const CODECS = ["gzip", "snappy", "lz4", "zstd"];
const RETENTION_MS = "5000";

type Capability = () => Promise<void>;
type Capabilities = Record<string, Capability>;

const [client = "", capability = ""] = process.argv.slice(2);
const capabilities: Capabilities = client === "kafkajs" ? ofKafkajs() : ofPlatformatic();
const wanted = capabilities[capability];
if (wanted === undefined) throw new Error(`${client} has no ${capability}`);
await wanted();
process.exit(0);

function absent(reason: string): Capability {
  return async () => console.log(`n/a ${reason}`);
}

function expect(wanted: unknown, found: unknown, what: string): void {
  if (wanted !== found) throw new Error(`${found} ${what}, not ${wanted}`);
}

async function until(what: string, holds: () => boolean): Promise<void> {
  for (let waited = 0; waited < WAIT_MS_MAX; waited += 100) {
    if (holds()) return;
    await sleep(100);
  }
  throw new Error(`${what}: not within ${WAIT_MS_MAX} ms`);
}

function ofKafkajs(): Capabilities {
  const kafka = new Kafka({
    clientId: "matrix",
    brokers: [CLIENT_BOOTSTRAP],
    logLevel: logLevel.NOTHING,
  });
  const messages = (prefix: string) =>
    Array.from({ length: RECORDS }, (_, at) => ({
      value: `${prefix}${at}`,
      partition: at % PARTITIONS,
    }));
  const write = async (producer: KafkajsProducer, compression = CompressionTypes.None) => {
    await producer.connect();
    await producer.send({ topic: CLIENT_TOPIC, acks: -1, compression, messages: messages("v") });
    await producer.disconnect();
  };
  const read = async (count: number) => {
    const values: string[] = [];
    const consumer = kafka.consumer({ groupId: `${CLIENT_GROUP}-read`, readUncommitted: false });
    await consumer.connect();
    await consumer.subscribe({ topics: [CLIENT_TOPIC], fromBeginning: true });
    await consumer.run({
      eachMessage: async ({ message }) => void values.push(String(message.value)),
    });
    await until(`${count} records`, () => values.length >= count);
    await consumer.disconnect();
    return values;
  };
  const exchange = (idempotent: boolean, compression?: CompressionTypes) => async () => {
    await write(kafka.producer({ idempotent }), compression);
    expect(RECORDS, (await read(RECORDS)).length, "records read");
  };
  const transactions = async () => {
    const producer = kafka.producer({
      transactionalId: CLIENT_GROUP,
      idempotent: true,
      maxInFlightRequests: 1,
    });
    await producer.connect();
    const aborted = await producer.transaction();
    await aborted.send({ topic: CLIENT_TOPIC, messages: messages("aborted") });
    await aborted.abort();
    const committed = await producer.transaction();
    await committed.send({ topic: CLIENT_TOPIC, messages: messages("committed") });
    const topics = [{ topic: CLIENT_TOPIC, partitions: [{ partition: 0, offset: "3" }] }];
    await committed.sendOffsets({ consumerGroupId: CLIENT_GROUP, topics });
    await committed.commit();
    await producer.disconnect();
    const values = await read(RECORDS);
    expect(0, values.filter((value) => value.startsWith("aborted")).length, "aborted records");
    const admin = kafka.admin();
    await admin.connect();
    const [offsets] = await admin.fetchOffsets({ groupId: CLIENT_GROUP, topics: [CLIENT_TOPIC] });
    expect(
      "3",
      offsets?.partitions.find(({ partition }) => partition === 0)?.offset,
      "committed offset",
    );
    await admin.disconnect();
  };
  const group = async () => {
    await write(kafka.producer());
    const values = new Set<string>();
    const owned = [0, 0];
    const members = [0, 1].map(() =>
      kafka.consumer({ groupId: CLIENT_GROUP, rebalanceTimeout: 5_000 }),
    );
    for (const [at, member] of members.entries()) {
      member.on(member.events.GROUP_JOIN, ({ payload }) => {
        owned[at] = payload.memberAssignment[CLIENT_TOPIC]?.length ?? 0;
      });
      await member.connect();
      await member.subscribe({ topics: [CLIENT_TOPIC], fromBeginning: true });
      await member.run({
        eachMessage: async ({ message }) => void values.add(String(message.value)),
      });
    }
    await until("a partition each", () => owned.every((count) => count === 1));
    await members[1]?.disconnect();
    await until("both partitions", () => owned[0] === PARTITIONS && values.size === RECORDS);
    await members[0]?.disconnect();
  };
  const admin = async () => {
    const topic = `${CLIENT_TOPIC}-made`;
    const admin = kafka.admin();
    await admin.connect();
    await admin.createTopics({
      topics: [{ topic, numPartitions: 1, replicationFactor: 1 }],
      waitForLeaders: true,
    });
    const resource = { type: 2, name: topic };
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{ ...resource, configEntries: [{ name: "retention.ms", value: RETENTION_MS }] }],
    });
    await sleep(500);
    const { resources } = await admin.describeConfigs({
      resources: [resource],
      includeSynonyms: false,
    });
    const entry = resources[0]?.configEntries.find(
      ({ configName }) => configName === "retention.ms",
    );
    expect(RETENTION_MS, entry?.configValue, "retention.ms");
    await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] });
    await sleep(500);
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    expect(3, topics[0]?.partitions.length, "partitions");
    await admin.describeCluster();
    await admin.listGroups();
    await admin.deleteTopics({ topics: [topic] });
    await admin.disconnect();
  };
  const further = absent("needs a further package");
  return {
    produce: exchange(false),
    consume: exchange(false),
    "idempotent produce": exchange(true),
    transactions,
    "classic group": group,
    "consumer group": absent("not supported by the client"),
    "share group": absent("not supported by the client"),
    admin,
    gzip: exchange(false, CompressionTypes.GZIP),
    snappy: further,
    lz4: further,
    zstd: further,
  };
}

function ofPlatformatic(): Capabilities {
  const base = { clientId: "matrix", bootstrapBrokers: [CLIENT_BOOTSTRAP] };
  const messages = (prefix: string) =>
    Array.from({ length: RECORDS }, (_, at) => ({
      topic: CLIENT_TOPIC,
      value: `${prefix}${at}`,
      partition: at % PARTITIONS,
    }));
  const producerOf = (options: object) =>
    new Producer<string, string, string, string>({
      ...base,
      serializers: stringSerializers,
      ...options,
    });
  const consumerOf = (options: Partial<ConsumerOptions<string, string, string, string>> = {}) =>
    new Consumer({
      ...base,
      groupId: CLIENT_GROUP,
      deserializers: stringDeserializers,
      ...options,
    } as ConsumerOptions<string, string, string, string>);
  const write = async (options: object) => {
    const producer = producerOf(options);
    await producer.send({ acks: -1, messages: messages("v") });
    await producer.close();
  };
  const read = async (count: number) => {
    const consumer = consumerOf({ groupId: `${CLIENT_GROUP}-read` });
    const stream = await consumer.consume({
      topics: [CLIENT_TOPIC],
      mode: "earliest",
      isolationLevel: 1,
    });
    const values: string[] = [];
    stream.on("data", ({ value }) => values.push(value));
    await until(`${count} records`, () => values.length >= count);
    await stream.close();
    await consumer.close(true);
    return values;
  };
  const exchange =
    (options: { idempotent?: boolean; compression?: CompressionAlgorithmValue }) => async () => {
      try {
        await write(options);
      } catch (error) {
        if (!/not available|please install/i.test(String(error))) throw error;
        console.log("n/a needs a further package");
        return;
      }
      expect(RECORDS, (await read(RECORDS)).length, "records read");
    };
  const transactions = async () => {
    const producer = producerOf({ transactionalId: CLIENT_GROUP, idempotent: true });
    const aborted = await producer.beginTransaction();
    await aborted.send({ messages: messages("aborted") });
    await aborted.abort();
    const committed = await producer.beginTransaction();
    await committed.send({ messages: messages("committed") });
    await committed.commit();
    await producer.close();
    const values = await read(RECORDS);
    expect(0, values.filter((value) => value.startsWith("aborted")).length, "aborted records");
  };
  const group = (options: Partial<ConsumerOptions<string, string, string, string>>) => async () => {
    await write({});
    const values = new Set<string>();
    const members = [consumerOf(options), consumerOf(options)] as const;
    const streams = [];
    for (const member of members) {
      const stream = await member.consume({
        topics: [CLIENT_TOPIC],
        mode: "committed",
        fallbackMode: "earliest",
      });
      stream.on("data", ({ value }) => values.add(value));
      streams.push(stream);
    }
    const owned = (at: 0 | 1) =>
      members[at].assignments?.reduce((sum, { partitions }) => sum + partitions.length, 0) ?? 0;
    await until("a partition each", () => owned(0) === 1 && owned(1) === 1);
    await streams[1]?.close();
    await members[1].close(true);
    await until("both partitions", () => owned(0) === PARTITIONS && values.size === RECORDS);
    await streams[0]?.close();
    await members[0].close(true);
  };
  const admin = async () => {
    const topic = `${CLIENT_TOPIC}-made`;
    const admin = new Admin(base);
    await admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 });
    const resource = { resourceType: 2, resourceName: topic };
    const change = { name: "retention.ms", configOperation: 0, value: RETENTION_MS };
    await admin.incrementalAlterConfigs({
      resources: [{ ...resource, configs: [change] }],
      validateOnly: false,
    } as never);
    await sleep(500);
    const described = await admin.describeConfigs({ resources: [resource] } as never);
    expect(
      RETENTION_MS,
      described[0]?.configs.find(({ name }) => name === "retention.ms")?.value,
      "retention.ms",
    );
    await admin.createPartitions({
      topics: [{ name: topic, count: 3, assignments: null }],
    } as never);
    await sleep(500);
    const { topics } = await admin.metadata({ topics: [topic], forceUpdate: true });
    expect(3, topics.get(topic)?.partitions.length, "partitions");
    await admin.listGroups();
    await admin.deleteTopics({ topics: [topic] });
    await admin.close();
  };
  const codecs = CODECS.map((codec) => [
    codec,
    exchange({ compression: codec as CompressionAlgorithmValue }),
  ]);
  return {
    produce: exchange({}),
    consume: exchange({}),
    "idempotent produce": exchange({ idempotent: true }),
    transactions,
    "classic group": group({}),
    "consumer group": group({ groupProtocol: "consumer" }),
    "share group": absent("not supported by the client"),
    admin,
    ...Object.fromEntries(codecs),
  };
}
