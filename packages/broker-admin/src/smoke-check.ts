import { randomBytes } from "node:crypto";
import { Consumer, Producer } from "@platformatic/kafka";
import { BrokerError, toBrokerError, withDeadline } from "./broker-error.ts";
import { KafkaAdmin } from "./kafka-admin.ts";
import { connectionOptions, type KafkaAddress, survivingResets } from "./kafka-client.ts";

/** Names of the topics that checks use; `__` keeps them out of the lists that users see. */
const TOPIC_PREFIX = "__millrace_smoke_";
const RECORDS = 3;
const CHECK_TIMEOUT_MS = 15_000;

/**
 * Proves that the broker does its job: creates an internal topic, writes records acknowledged by
 * all replicas, reads them back, compares, deletes the topic. Topics that an interrupted check left
 * behind are deleted too. Throws `BrokerError`, `smoke_mismatch` among them.
 */
export async function smokeCheck(address: KafkaAddress): Promise<void> {
  const admin = new KafkaAdmin(address);
  const topic = TOPIC_PREFIX + randomBytes(6).toString("hex");
  try {
    await removeTopics(admin);
    await admin.createTopic({ name: topic, partitions: 1, configs: {} });
    const written = Array.from({ length: RECORDS }, () => randomBytes(64));
    await produce(address, topic, written);
    const read = await consume(address, topic);
    const equal =
      read.length === written.length &&
      written.every((value, index) => read[index]?.equals(value) === true);
    if (!equal) {
      throw new BrokerError(
        "smoke_mismatch",
        `wrote ${written.length} records, read back ${read.length}, not the same`,
      );
    }
    await admin.deleteTopic(topic);
  } finally {
    await admin.close();
  }
}

async function removeTopics(admin: KafkaAdmin): Promise<void> {
  const names = await admin.topicNames({ includeInternal: true });
  for (const name of names.filter((each) => each.startsWith(TOPIC_PREFIX))) {
    try {
      await admin.deleteTopic(name);
    } catch (error) {
      const gone = error instanceof BrokerError && error.code === "topic_not_found";
      if (!gone) throw error;
    }
  }
}

async function produce(
  address: KafkaAddress,
  topic: string,
  values: readonly Buffer[],
): Promise<void> {
  const producer = survivingResets(
    new Producer({ ...clientOptions(address), idempotent: true, acks: -1 }),
  );
  try {
    await withDeadline(
      producer.send({ messages: values.map((value) => ({ topic, partition: 0, value })) }),
      CHECK_TIMEOUT_MS,
      "write the check's records",
    );
  } catch (error) {
    throw toBrokerError(error, "write the check's records");
  } finally {
    await quietly(producer.close());
  }
}

/** Reads the topic from its beginning, without a group, so that no group is left behind. */
async function consume(address: KafkaAddress, topic: string): Promise<Buffer[]> {
  const consumer = survivingResets(
    new Consumer({ ...clientOptions(address), groupId: topic, autocommit: false }),
  );
  try {
    return await withDeadline(
      fetchValues(consumer, topic),
      CHECK_TIMEOUT_MS,
      "read the check's records",
    );
  } catch (error) {
    throw toBrokerError(error, "read the check's records");
  } finally {
    await quietly(consumer.close(true));
  }
}

async function fetchValues(
  consumer: Consumer<Buffer, Buffer, Buffer, Buffer>,
  topic: string,
): Promise<Buffer[]> {
  const metadata = await consumer.metadata({ topics: [topic] });
  const { id: topicId, partitions } = metadata.topics.get(topic) ?? {};
  const node = partitions?.[0]?.leader;
  if (topicId === undefined || node === undefined) {
    throw new BrokerError("topic_not_found", `topic ${topic} has no leader`);
  }
  const values: Buffer[] = [];
  for (let fetches = 0; fetches < FETCHES_MAX && values.length < RECORDS; fetches += 1) {
    const answer = await consumer.fetch({
      node,
      topics: [{ topicId, partitions: [{ ...FROM, fetchOffset: BigInt(values.length) }] }],
      minBytes: 1,
      maxBytes: FROM.partitionMaxBytes,
      maxWaitTime: 1_000,
    });
    for (const batch of answer.responses[0]?.partitions[0]?.records ?? []) {
      for (const record of batch.records) {
        const offset = Number(batch.firstOffset) + record.offsetDelta;
        if (offset === values.length) values.push(record.value ?? Buffer.alloc(0));
      }
    }
  }
  return values;
}

/** The only partition; -1 says that the client knows no epoch. */
const FROM = {
  partition: 0,
  currentLeaderEpoch: -1,
  lastFetchedEpoch: -1,
  partitionMaxBytes: 1024 * 1024,
} as const;
/** The records come with the first fetch or the second; more says that they never come. */
const FETCHES_MAX = 10;

function clientOptions(address: KafkaAddress) {
  return {
    clientId: "millrace-smoke-check",
    ...connectionOptions(address),
    connectTimeout: 2_000,
    retries: 3,
    retryDelay: 200,
    autocreateTopics: false,
  };
}

/** Closing a client is a courtesy here; the check's verdict is made already. */
async function quietly(closing: Promise<void>): Promise<void> {
  try {
    await withDeadline(closing, 2_000, "close the check's client");
  } catch {
    // Nothing depends on it.
  }
}
