/** Kafka's own tools delete records and tell sizes. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Kafka, logLevel } from "kafkajs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createCluster, createTopic, deleteCluster, type TestCluster, unique } from "../product.ts";
import { kafkaTool } from "./clients/java.ts";

const RECORDS = 100;

describe.runIf(process.env.MILLRACE_KAFKA_JARS)("Kafka's tools for records", () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-records-"));
  let cluster: TestCluster;

  beforeAll(async () => {
    cluster = await createCluster(unique("records"));
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true });
    await deleteCluster(cluster.id);
  });

  /** A topic of two partitions with `RECORDS` records each. */
  async function filledTopic(): Promise<string> {
    const topic = unique("deleted");
    await createTopic(cluster.id, topic, 2);
    const kafka = new Kafka({
      clientId: "e2e",
      brokers: [cluster.bootstrap],
      logLevel: logLevel.NOTHING,
    });
    const producer = kafka.producer();
    await producer.connect();
    for (const partition of [0, 1]) {
      const messages = Array.from({ length: RECORDS }, (_, n) => ({ value: String(n), partition }));
      await producer.send({ topic, messages });
    }
    await producer.disconnect();
    return topic;
  }

  /** Runs a tool and gives the lines that it prints. */
  async function lines(tool: string, args: string[]): Promise<string[]> {
    const printed: string[] = [];
    await kafkaTool(tool, ["--bootstrap-server", cluster.bootstrap, ...args], {
      onLine: (line) => printed.push(line),
    });
    return printed;
  }

  async function deleteRecords(
    topic: string,
    offsets: [partition: number, offset: number][],
  ): Promise<string[]> {
    const partitions = offsets.map(([partition, offset]) => ({ topic, partition, offset }));
    const file = join(folder, "offsets.json");
    writeFileSync(file, JSON.stringify({ version: 1, partitions }));
    return await lines("DeleteRecordsCommand", ["--offset-json-file", file]);
  }

  async function sizes(topic: string): Promise<Map<string, number>> {
    const printed = await lines("LogDirsCommand", ["--describe", "--topic-list", topic]);
    const json = JSON.parse(printed.find((line) => line.startsWith("{")) ?? "{}");
    const found: { partition: string; size: number }[] = json.brokers[0].logDirs[0].partitions;
    return new Map(found.map(({ partition, size }) => [partition, size]));
  }

  it("kafka-delete-records moves the log start, and kafka-log-dirs sees it", async () => {
    const topic = await filledTopic();
    const before = await sizes(topic);
    expect(before.get(`${topic}-0`)).toBeGreaterThan(RECORDS);
    const deleted = await deleteRecords(topic, [
      [0, -1],
      [1, 40],
    ]);
    expect(deleted).toContain(`partition: ${topic}-0\tlow_watermark: ${RECORDS}`);
    expect(deleted).toContain(`partition: ${topic}-1\tlow_watermark: 40`);
    const after = await sizes(topic);
    expect(after.get(`${topic}-0`)).toBe(0);
    expect(after.get(`${topic}-1`)).toBeLessThan(before.get(`${topic}-1`) ?? 0);
    const starts = await lines("GetOffsetShell", ["--topic", topic, "--time", "-2"]);
    expect(starts).toEqual(expect.arrayContaining([`${topic}:0:${RECORDS}`, `${topic}:1:40`]));
  });

  it("an offset that is not there is refused", async () => {
    const refused = await deleteRecords(await filledTopic(), [[1, RECORDS + 1]]);
    expect(refused.join("\n")).toContain("OffsetOutOfRangeException");
  });
});
