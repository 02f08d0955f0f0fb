/**
 * Every stock client, and our own client library, writes with every codec, and every other one reads
 * it back: equal, complete, and in order within each partition.
 */
import { once } from "node:events";
import { createWriteStream, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createCluster, createTopic, deleteCluster, type TestCluster, unique } from "../product.ts";
import { type Client, CODECS } from "./clients/client.ts";
import { java } from "./clients/java.ts";
import { librdkafka } from "./clients/kcat.ts";
import { consoleProgram, millrace } from "./clients/millrace.ts";
import { node } from "./clients/node.ts";

const RECORDS = Number(process.env.MILLRACE_E2E_RECORDS ?? 20_000);
const RECORD_BYTES = 1_024;
const PARTITIONS = 8;
const SEQUENCE_DIGITS = 8;

const clients = [
  process.env.MILLRACE_KCAT === "" ? undefined : librdkafka,
  process.env.MILLRACE_KAFKA_JARS ? java : undefined,
  node,
  millrace,
].filter((client) => client !== undefined);

describe("clients read what other clients wrote", () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-exchange-"));
  const file = join(folder, "records");
  let cluster: TestCluster;

  beforeAll(async () => {
    consoleProgram();
    await writeRecords(file);
    cluster = await createCluster(unique("exchange"));
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true });
    await deleteCluster(cluster.id);
  });

  const cases = clients.flatMap((writer) =>
    CODECS.map((codec) => [writer.name, codec, writer] as const),
  );
  it.for(cases)("%s writes %s", async ([, codec, writer]) => {
    const topic = unique(`t-${codec}`);
    await createTopic(cluster.id, topic, PARTITIONS);
    await writer.produce(cluster.bootstrap, topic, file, codec);
    for (const reader of clients) await expectAll(reader, cluster.bootstrap, topic);
  });
});

/** A kilobyte that begins with the record's number and is different for each. */
function recordOf(number: number): string {
  const head = String(number).padStart(SEQUENCE_DIGITS, "0");
  return (head + (Math.imul(number, 2_654_435_761) >>> 0).toString(36))
    .repeat(Math.ceil(RECORD_BYTES / SEQUENCE_DIGITS))
    .slice(0, RECORD_BYTES);
}

async function writeRecords(file: string): Promise<void> {
  const sink = createWriteStream(file);
  for (let number = 0; number < RECORDS; number++) {
    if (!sink.write(`${recordOf(number)}\n`)) await once(sink, "drain");
  }
  sink.end();
  await finished(sink);
}

async function expectAll(reader: Client, bootstrap: string, topic: string): Promise<void> {
  const seen = new Uint8Array(RECORDS);
  const lastIn = new Map<number, number>();
  const faults: string[] = [];
  let count = 0;
  await reader.consume(bootstrap, topic, RECORDS, ({ partition, value }) => {
    const number = Number(value.slice(0, SEQUENCE_DIGITS));
    if (value !== recordOf(number)) faults.push(`record ${number}: other bytes`);
    if (number <= (lastIn.get(partition) ?? -1)) faults.push(`record ${number}: out of order`);
    if (seen[number]) faults.push(`record ${number}: twice`);
    lastIn.set(partition, number);
    seen[number] = 1;
    count += 1;
  });
  expect(faults.slice(0, 5), `${reader.name} reads`).toEqual([]);
  expect(count, `${reader.name} reads`).toBe(RECORDS);
  // A sticky partitioner fills a batch before it moves on, so a short run may not reach them all.
  expect(lastIn.size, "partitions in use").toBeGreaterThan(1);
}
