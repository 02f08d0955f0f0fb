/** Set-up of the tests with the real broker. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { BrokerHttp } from "@millrace/broker-admin";
import { deploymentOf } from "@millrace/core";
import type { Cluster } from "@millrace/domain";
import { localAccess } from "@millrace/provisioner";
import { Consumer, Producer } from "@platformatic/kafka";
import { LOCAL_DEPLOYMENT } from "../../../packages/provisioner/test/deployment.ts";

const MIB = 1024 ** 2;
const ROOT = resolve(import.meta.dirname, "../../..");
const CANDIDATES = [
  process.env.MILLRACE_BROKER_BIN,
  join(ROOT, "dataplane/target/release/millrace"),
  join(ROOT, "dataplane/target/debug/millrace"),
];

/** The broker program; undefined if none has been built. */
export const brokerBin = CANDIDATES.find((path) => path !== undefined && existsSync(path));

/** A cluster that needs little memory and disk, but for its id and place. */
export const SMALL_DEPLOYMENT = {
  ...LOCAL_DEPLOYMENT,
  walCapacityBytes: 64 * MIB,
  properties: {
    "s3.wal.cache.size": String(64 * MIB),
    "s3.wal.upload.threshold": String(16 * MIB),
    "s3.block.cache.size": String(32 * MIB),
    "offsets.topic.num.partitions": "4",
  },
};

/** The admin HTTP of a cluster of the installation in `home`. */
export async function adminHttp(home: string, cluster: Cluster): Promise<BrokerHttp> {
  const deployment = deploymentOf(cluster);
  if (deployment === undefined) throw new Error("a running cluster has a placement");
  return new BrokerHttp(await localAccess(home)(deployment));
}

/** Writes records of 1 KiB, alternating between the topic's two partitions. */
export async function produce(address: string, topic: string, records: number): Promise<void> {
  const producer = new Producer({ clientId: "test", bootstrapBrokers: [address] });
  try {
    for (let sent = 0; sent < records; sent += 10) {
      const messages = Array.from({ length: 10 }, (_, index) => ({
        topic,
        partition: (sent + index) % 2,
        value: Buffer.alloc(1_024, "x"),
      }));
      await producer.send({ messages, acks: -1 });
    }
  } finally {
    await producer.close();
  }
}

/** Reads and commits, as the group `readers`, the first records of the topic: the rest is its lag. */
export async function consume(
  address: string,
  topic: string,
  records: number,
  whileMember?: () => Promise<void>,
): Promise<void> {
  const consumer = new Consumer({
    clientId: "test",
    groupId: "readers",
    bootstrapBrokers: [address],
    autocommit: false,
  });
  try {
    const stream = await consumer.consume({ topics: [topic], mode: "earliest" });
    const next = [0n, 0n];
    let read = 0;
    for await (const message of stream) {
      next[message.partition] = message.offset + 1n;
      read += 1;
      if (read === records) break;
    }
    const offsets = next.map((offset, partition) => ({
      topic,
      partition,
      offset,
      leaderEpoch: -1,
    }));
    await consumer.commit({ offsets });
    await whileMember?.();
  } finally {
    await consumer.close(true);
  }
}
