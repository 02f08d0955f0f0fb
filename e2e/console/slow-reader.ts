/** A consumer that takes its time: what it has yet to read is a backlog that shrinks. */
import { setTimeout as sleep } from "node:timers/promises";
import { Consumer, stringDeserializers } from "@platformatic/kafka";

/** So many records, then a pause: some half a megabyte a second of records of a kilobyte. */
const BITE = 20;
const PAUSE_MS = 40;
const COMMIT_EVERY_MS = 250;

/** Reads `topic` from its beginning as `groupId` until it is stopped. */
export async function readSlowly(
  bootstrap: string,
  groupId: string,
  topic: string,
): Promise<{ stop(): Promise<void> }> {
  const consumer = new Consumer({
    clientId: "slow-reader",
    bootstrapBrokers: [bootstrap],
    groupId,
    deserializers: stringDeserializers,
    // Small answers of all partitions alike, so that it is never far ahead of what it has read.
    maxBytesPerPartition: 16 * 1024,
    highWaterMark: BITE,
    autocommit: COMMIT_EVERY_MS,
  });
  const stream = await consumer.consume({ topics: [topic], mode: "earliest" });
  let stopped = false;
  const reading = (async () => {
    let read = 0;
    for await (const _ of stream) {
      if (stopped) break;
      read += 1;
      if (read % BITE === 0) await sleep(PAUSE_MS);
    }
  })();
  return {
    async stop() {
      stopped = true;
      await stream.close();
      await reading;
      await consumer.close(true);
    },
  };
}
