/** A Node.js client: @platformatic/kafka. */
import { once } from "node:events";
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { Consumer, Producer, stringDeserializers, stringSerializers } from "@platformatic/kafka";
import { unique } from "../../product.ts";
import type { Client, Codec } from "./client.ts";

/** Records in one send; about a quarter of a megabyte at a kilobyte each. */
const SEND_RECORDS = 500;
const IDLE_MS_MAX = 30_000;

export const node: Client = {
  name: "Node.js (@platformatic/kafka)",

  async produce(bootstrap, topic, file, codec: Codec) {
    const producer = new Producer({
      clientId: unique("e2e"),
      bootstrapBrokers: bootstrap.split(","),
      serializers: stringSerializers,
      idempotent: true,
      compression: codec,
    });
    try {
      let values: string[] = [];
      let number = 0;
      const send = async () => {
        const messages = values.map((value) => ({ topic, value, key: String(number++) }));
        values = [];
        await producer.send({ messages });
      };
      for await (const line of createInterface({ input: createReadStream(file, "latin1") })) {
        values.push(line);
        if (values.length === SEND_RECORDS) await send();
      }
      if (values.length > 0) await send();
    } finally {
      await producer.close();
    }
  },

  async consume(bootstrap, topic, count, onSeen) {
    const consumer = new Consumer({
      clientId: unique("e2e"),
      groupId: unique("e2e-group"),
      bootstrapBrokers: bootstrap.split(","),
      deserializers: stringDeserializers,
      autocommit: false,
    });
    try {
      const stream = await consumer.consume({ topics: [topic], mode: "earliest" });
      const idle = setTimeout(
        () => stream.destroy(new Error("no record for too long")),
        IDLE_MS_MAX,
      );
      let seen = 0;
      stream.on("data", ({ partition, value }) => {
        idle.refresh();
        onSeen({ partition, value: value ?? "" });
        seen += 1;
        if (seen === count) stream.emit("enough");
      });
      await once(stream, "enough");
      clearTimeout(idle);
      await stream.close();
    } finally {
      await consumer.close(true);
    }
  },
};
