/** The whole of it: the program as it is shipped, with the real broker. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { KafkaAdmin } from "@millrace/broker-admin";
import { bootstrapServers, type Cluster, type MetricName } from "@millrace/domain";
import { queryMetrics } from "@millrace/metrics";
import { Consumer, Producer } from "@platformatic/kafka";
import { describe, expect, test } from "vitest";
import { installation } from "./fixture.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const CANDIDATES = [
  process.env.MILLRACE_BROKER_BIN,
  join(ROOT, "dataplane/target/release/millrace"),
  join(ROOT, "dataplane/target/debug/millrace"),
];
const brokerBin = CANDIDATES.find((path) => path !== undefined && existsSync(path));
const TIMEOUT_MS = 90_000;
const TOPIC = "orders";

const it = installation();

describe.skipIf(brokerBin === undefined)("with the real broker", () => {
  test("a cluster is made, used, measured, survives kill -9 of its broker, and is deleted", {
    timeout: TIMEOUT_MS,
  }, async () => {
    await it.startProduct({ stopBrokers: true, brokerBin: brokerBin ?? "" });
    const { cluster, operation } = await it.requestCluster("real");
    const created = await it.waitForOperation(cluster, operation.id);
    expect(created).toMatchObject({ phase: "SUCCEEDED", error: undefined });
    const running = await it.waitForPhase(cluster, "RUNNING");
    const address = bootstrapServers(running) ?? "";

    await withAdmin(address, (admin) =>
      admin.createTopic({ name: TOPIC, partitions: 2, configs: {} }),
    );
    await produce(address, 500);
    await consume(address, 300);
    const measured = async () => Object.fromEntries(await latest(running));
    await expect.poll(measured, { timeout: 20_000, interval: 250 }).toMatchObject({
      bytes_in_rate: expect.any(Number),
      produce_latency_p99: expect.any(Number),
      fetch_latency_p99: expect.any(Number),
      consumer_lag: 200,
    });

    const [before] = it.brokersOf(cluster.id);
    process.kill(before ?? 0, "SIGKILL");
    await it.waitForPhase(cluster, "DEGRADED");
    await it.waitForPhase(cluster, "RUNNING");
    const groups = await withAdmin(address, (admin) => admin.listConsumerGroups());
    const committed = groups[0]?.partitions.reduce((sum, each) => sum + each.committedOffset, 0n);
    const ends = groups[0]?.partitions.reduce((sum, each) => sum + each.endOffset, 0n);
    expect([groups[0]?.groupId, committed, ends]).toEqual(["readers", 300n, 500n]);

    const deletion = await it.requestDeletion(running);
    expect((await it.waitForOperation(cluster, deletion.id)).phase).toBe("SUCCEEDED");
    expect(it.brokersOf(cluster.id)).toEqual([]);
    expect(existsSync(join(it.home, "clusters", cluster.id))).toBe(false);
  });
});

async function withAdmin<T>(address: string, work: (admin: KafkaAdmin) => Promise<T>): Promise<T> {
  const admin = new KafkaAdmin({ bootstrapServers: address });
  try {
    return await work(admin);
  } finally {
    await admin.close();
  }
}

async function produce(address: string, records: number): Promise<void> {
  const producer = new Producer({ clientId: "test", bootstrapBrokers: [address] });
  try {
    for (let sent = 0; sent < records; sent += 10) {
      const messages = Array.from({ length: 10 }, (_, index) => ({
        topic: TOPIC,
        partition: (sent + index) % 2,
        value: Buffer.alloc(1_024, "x"),
      }));
      await producer.send({ messages, acks: -1 });
    }
  } finally {
    await producer.close();
  }
}

/** Reads and commits, as a group, the first records of the topic: the rest is its lag. */
async function consume(address: string, records: number): Promise<void> {
  const consumer = new Consumer({
    clientId: "test",
    groupId: "readers",
    bootstrapBrokers: [address],
    autocommit: false,
  });
  try {
    const stream = await consumer.consume({ topics: [TOPIC], mode: "earliest" });
    const next = [0n, 0n];
    let read = 0;
    for await (const message of stream) {
      next[message.partition] = message.offset + 1n;
      read += 1;
      if (read === records) break;
    }
    const offsets = next.map((offset, partition) => ({
      topic: TOPIC,
      partition,
      offset,
      leaderEpoch: -1,
    }));
    await consumer.commit({ offsets });
  } finally {
    await consumer.close(true);
  }
}

/** The newest value that each series has. */
async function latest(cluster: Cluster): Promise<Map<MetricName, number>> {
  const series = await queryMetrics(it.db.metrics, {
    clusterId: cluster.id,
    from: new Date(Date.now() - 60_000),
    to: new Date(),
    stepSeconds: 2,
  });
  return new Map(
    series.flatMap(({ name, points }) => {
      const last = points.findLast(([, value]) => value !== null)?.[1];
      return typeof last === "number" ? [[name, last] as const] : [];
    }),
  );
}
