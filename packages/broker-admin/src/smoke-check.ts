import { randomBytes } from "node:crypto";
import { BrokerError } from "./broker-error.ts";
import type { BrokerHttp } from "./broker-http.ts";

/** Names of the topics that checks use; `__` keeps them out of the lists that users see. */
const TOPIC_PREFIX = "__millrace_smoke_";
const RECORDS = 3;
const RECORD_BYTES = 64;
const READ_TIMEOUT_MS = 10_000;

/**
 * Proves that the broker does its job: creates an internal topic, writes records acknowledged by
 * all replicas, reads them back, compares, deletes the topic. Topics that an interrupted check left
 * behind are deleted too. Throws `BrokerError`, `smoke_mismatch` among them.
 *
 * Where `admin.records.enabled` is false, it proves as much without records.
 */
export async function smokeCheck({
  topics,
  records,
}: Pick<BrokerHttp, "topics" | "records">): Promise<void> {
  await removeTopics(topics);
  const name = TOPIC_PREFIX + randomBytes(6).toString("hex");
  await topics.create({ name, partitions: 1, configs: {} });
  try {
    await checkRecords(records, name);
  } catch (error) {
    if (!(error instanceof BrokerError && error.code === "records_disabled")) throw error;
  }
  await topics.delete(name);
}

async function removeTopics(topics: BrokerHttp["topics"]): Promise<void> {
  const names = await topics.names({ includeInternal: true });
  for (const name of names.filter((each) => each.startsWith(TOPIC_PREFIX))) {
    try {
      await topics.delete(name);
    } catch (error) {
      const gone = error instanceof BrokerError && error.code === "topic_not_found";
      if (!gone) throw error;
    }
  }
}

async function checkRecords(records: BrokerHttp["records"], topic: string): Promise<void> {
  const written = Array.from({ length: RECORDS }, () =>
    randomBytes(RECORD_BYTES).toString("base64"),
  );
  const { results } = await records.produce(topic, {
    records: written.map((data) => ({ partition: 0, value: { encoding: "base64", data } })),
  });
  for (const result of results) {
    if ("error" in result) throw new BrokerError("refused", result.error.message);
  }
  const page = await records.list(
    topic,
    { from: "earliest", limit: RECORDS, encoding: "base64" },
    AbortSignal.timeout(READ_TIMEOUT_MS),
  );
  const read = page.records.map(({ value }) => value?.data);
  if (read.length === RECORDS && written.every((value, index) => read[index] === value)) return;
  throw new BrokerError(
    "smoke_mismatch",
    `wrote ${written.length} records, read back ${read.length}, not the same`,
  );
}
