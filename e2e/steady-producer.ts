/** An idempotent producer that an application would use while the brokers of its cluster change. */
import { setTimeout as sleep } from "node:timers/promises";
import { Kafka, logLevel } from "kafkajs";

const SEND_EVERY_MS = 50;

export interface Produced {
  acknowledged: number;
  /** What the application was told. */
  failed: string[];
  /** How many records the topic has. */
  records: number;
}

/** Sends a record to each partition, over and over, until it is told to stop. */
export async function produceSteadily(
  bootstrap: string,
  topic: string,
  partitions: number,
): Promise<{ stop(): Promise<Produced> }> {
  const kafka = new Kafka({
    clientId: "steady-producer",
    brokers: bootstrap.split(","),
    logLevel: logLevel.NOTHING,
    requestTimeout: 5_000,
    retry: { retries: 1_000, initialRetryTime: 50, maxRetryTime: 500 },
  });
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const failed: string[] = [];
  let acknowledged = 0;
  let stopped = false;
  const run = async () => {
    while (!stopped) {
      // A partition at a time: of a request whose partitions have moved to a broker that has answered already, the library
      // drops the rest.
      const sends = Array.from({ length: partitions }, async (_, partition) => {
        await producer.send({ topic, messages: [{ value: "x".repeat(100), partition }] });
        acknowledged += 1;
      });
      for (const sent of await Promise.allSettled(sends)) {
        if (sent.status === "rejected") failed.push(String(sent.reason).slice(0, 300));
      }
      await sleep(SEND_EVERY_MS);
    }
    await producer.disconnect();
  };
  const running = run();
  return {
    async stop() {
      stopped = true;
      await running;
      return { acknowledged, failed, records: await recordsOf(kafka, topic) };
    },
  };
}

async function recordsOf(kafka: Kafka, topic: string): Promise<number> {
  const admin = kafka.admin();
  await admin.connect();
  const offsets = await admin.fetchTopicOffsets(topic);
  await admin.disconnect();
  return offsets.reduce((sum, { low, high }) => sum + Number(high) - Number(low), 0);
}
