/** Consumer groups of a stock client: work is shared, commits outlive a crash, lag is shown. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Kafka, logLevel, type Message } from "kafkajs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  createCluster,
  createTopic,
  deleteCluster,
  home,
  type Json,
  rest,
  type TestCluster,
  unique,
  untilRunning,
} from "../product.ts";

const PARTITIONS = 6;
const RECORDS = 600;
const SETTLE_MS_MAX = 30_000;

interface Work {
  topic: string;
  groupId: string;
}

describe("consumer groups", () => {
  let cluster: TestCluster;
  let kafka: Kafka;

  beforeAll(async () => {
    cluster = await createCluster(unique("groups"));
    kafka = new Kafka({
      clientId: "e2e",
      brokers: [cluster.bootstrap],
      logLevel: logLevel.NOTHING,
      retry: { retries: 20, initialRetryTime: 100 },
    });
  });
  afterAll(() => deleteCluster(cluster.id));

  /** A topic with `RECORDS` records, and a group that has read nothing. */
  async function newWork(): Promise<Work> {
    const topic = unique("work");
    await createTopic(cluster.id, topic, PARTITIONS);
    const messages = Array.from({ length: RECORDS }, (_, n) => ({
      value: String(n),
      partition: n % PARTITIONS,
    }));
    await send(topic, messages);
    return { topic, groupId: unique("workers") };
  }

  /** The same when the group has read and committed everything. */
  async function doneWork(): Promise<Work> {
    const work = await newWork();
    const consumer = kafka.consumer({ groupId: work.groupId });
    const seen = new Set<string>();
    await consumer.connect();
    await consumer.subscribe({ topic: work.topic, fromBeginning: true });
    await consumer.run({
      eachMessage: async ({ message }) => {
        seen.add(String(message.value));
      },
    });
    await until(() => seen.size === RECORDS);
    await consumer.disconnect();
    return work;
  }

  async function send(topic: string, messages: Message[]): Promise<void> {
    const producer = kafka.producer();
    await producer.connect();
    await producer.send({ topic, messages });
    await producer.disconnect();
  }

  it("two members share the partitions and read everything once", async () => {
    const { topic, groupId } = await newWork();
    const seen = new Map<string, number>();
    const owners = [new Set<number>(), new Set<number>()];
    const members = await Promise.all(
      owners.map(async (own) => {
        const consumer = kafka.consumer({
          groupId,
          sessionTimeout: 10_000,
          rebalanceTimeout: 10_000,
        });
        const joined = new Promise<void>((resolve) => {
          consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
            own.clear();
            for (const partition of payload.memberAssignment[topic] ?? []) own.add(partition);
            resolve();
          });
        });
        await consumer.connect();
        await consumer.subscribe({ topic, fromBeginning: true });
        await consumer.run({
          eachMessage: async ({ message }) => {
            const value = String(message.value);
            seen.set(value, (seen.get(value) ?? 0) + 1);
          },
        });
        await joined;
        return consumer;
      }),
    );
    await until(() => seen.size === RECORDS && owners[0]!.size + owners[1]!.size === PARTITIONS);
    expect([...owners[0]!].filter((partition) => owners[1]!.has(partition))).toEqual([]);
    await Promise.all(members.map((consumer) => consumer.disconnect()));
    expect(await groupOf(cluster.id, groupId)).toMatchObject({
      total_lag: "0",
      state: "Empty",
      members: 0,
    });
  });

  it("committed offsets are the same after a kill -9", async () => {
    const { groupId } = await doneWork();
    const before = await groupOf(cluster.id, groupId);
    const pidFile = readFileSync(join(home, "clusters", cluster.id, "broker.pid"), "utf8");
    process.kill(
      pidFile.startsWith("{") ? JSON.parse(pidFile).pid : Number(pidFile.split("\n")[0]),
      "SIGKILL",
    );
    await sleep(500);
    await untilRunning(cluster.id);
    await until(async () => (await groupOf(cluster.id, groupId)) !== undefined);
    const after = await groupOf(cluster.id, groupId);
    expect(after.partitions).toEqual(before.partitions);
  });

  it("lag grows while nobody reads", async () => {
    const { topic, groupId } = await doneWork();
    await send(topic, [{ value: "more", partition: 0 }]);
    await until(async () => (await groupOf(cluster.id, groupId))?.total_lag === "1");
  });
});

async function groupOf(clusterId: string, groupId: string): Promise<Json> {
  const { body } = await rest("GET", `/v1/clusters/${clusterId}/consumer-groups`);
  return body.items?.find((group: Json) => group.group_id === groupId);
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let waited = 0; waited < SETTLE_MS_MAX; waited += 100) {
    if (await holds()) return;
    await sleep(100);
  }
  throw new Error(`not within ${SETTLE_MS_MAX} ms`);
}
