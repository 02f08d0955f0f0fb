/** Records in and out of the slot's broker, as a client does it. */
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Consumer, Producer, stringDeserializers, stringSerializers } from "@platformatic/kafka";
import { clusterStack, resource } from "../stack-fixture.ts";

const TOPIC = "records";
const READY_SECONDS_MAX = 90;
const IDLE_MS_MAX = 90_000;

/** A port that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  await once(server.close(), "close");
  return typeof address === "object" && address !== null ? address.port : 0;
}

/**
 * Waits until the load balancer of a cluster's stack would find the broker healthy: it takes connections at the port of
 * clients' traffic.
 */
export async function untilHealthy(kafkaPort: number): Promise<void> {
  const group = resource(
    clusterStack({ slots: 1 }),
    "aws_lb_target_group",
    "endpoint_kafka-0-targets",
  );
  const check = group.health_check as { protocol: string; port?: string };
  if (check.protocol !== "TCP" || check.port !== undefined) {
    throw new Error(`the load balancer checks ${JSON.stringify(check)}`);
  }
  for (let waited = 0; waited < READY_SECONDS_MAX * 10; waited++) {
    const socket = connect(kafkaPort, "127.0.0.1");
    try {
      await once(socket, "connect");
      return;
    } catch {
      await sleep(100);
    } finally {
      socket.destroy();
    }
  }
  throw new Error(`nothing listens after ${READY_SECONDS_MAX} s`);
}

export async function produce(kafkaPort: number, values: readonly string[]): Promise<void> {
  const producer = new Producer({
    clientId: "slot-test",
    bootstrapBrokers: [`127.0.0.1:${kafkaPort}`],
    serializers: stringSerializers,
    autocreateTopics: true,
    acks: -1,
  });
  try {
    await producer.send({ messages: values.map((value) => ({ topic: TOPIC, value })) });
  } finally {
    await producer.close();
  }
}

/** The first `count` values of the topic. */
export async function consume(kafkaPort: number, count: number): Promise<string[]> {
  const consumer = new Consumer({
    clientId: "slot-test",
    groupId: `slot-test-${Date.now()}`,
    bootstrapBrokers: [`127.0.0.1:${kafkaPort}`],
    deserializers: stringDeserializers,
    autocommit: false,
  });
  try {
    const stream = await consumer.consume({ topics: [TOPIC], mode: "earliest" });
    const idle = setTimeout(() => stream.destroy(new Error("no record")), IDLE_MS_MAX);
    const values: string[] = [];
    for await (const { value } of stream) {
      values.push(value ?? "");
      if (values.length === count) break;
    }
    clearTimeout(idle);
    return values;
  } finally {
    await consumer.close(true);
  }
}
