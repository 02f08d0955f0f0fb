/**
 * The broker is killed under a running producer, again and again. Every acknowledged record is
 * there afterwards, at the offset that was acknowledged, once.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  createCluster,
  createTopic,
  deleteCluster,
  home,
  rest,
  type TestCluster,
  unique,
  untilRunning,
} from "../product.ts";
import { runLines } from "./clients/client.ts";
import { kafkaTool } from "./clients/java.ts";

const KILLS = Number(process.env.MILLRACE_E2E_KILLS ?? 12);
const PARTITIONS = 4;
/** Records a second: enough that many are in flight at each kill. */
const THROUGHPUT = 2_000;
/** How long the broker serves between two kills. */
const SERVE_MS = 700;

const PRODUCER = [
  "enable.idempotence=true",
  "acks=all",
  "retries=2147483647",
  "linger.ms=2",
  "delivery.timeout.ms=120000",
  "request.timeout.ms=3000",
  "retry.backoff.ms=50",
  "reconnect.backoff.ms=50",
  "reconnect.backoff.max.ms=200",
];

interface Acked {
  partition: number;
  offset: number;
  value: string;
}

describe.skipIf(!process.env.MILLRACE_KAFKA_JARS)("kill -9 under a running producer", () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await createCluster(unique("crash"));
  });
  afterAll(() => deleteCluster(cluster.id));

  it(`${KILLS} times loses, repeats and invents nothing`, async () => {
    const topic = unique("crash");
    await createTopic(cluster.id, topic, PARTITIONS);
    const acked: Acked[] = [];
    let ended = false;
    const enough = new AbortController();
    const producer = producing(cluster.bootstrap, topic, acked, enough.signal)
      .then(
        () => undefined,
        (error: Error) => error,
      )
      .finally(() => {
        ended = true;
      });

    let kills = 0;
    let degraded = 0;
    while (kills < KILLS && !ended) {
      const before = acked.length;
      while (acked.length === before && !ended) await sleep(20);
      await sleep(SERVE_MS);
      process.kill(brokerPid(cluster.id), "SIGKILL");
      kills += 1;
      degraded += await wasDegraded(cluster.id);
      await untilRunning(cluster.id);
    }
    await sleep(SERVE_MS);
    enough.abort();
    expect(await producer, "how the producer ended").toBeUndefined();
    expect(kills).toBe(KILLS);
    expect(degraded, "kills after which the cluster showed DEGRADED").toBeGreaterThan(KILLS / 2);
    expect(acked.length).toBeGreaterThan(KILLS * 100);

    const stored = await readBack(cluster.bootstrap, topic);
    const lost = acked.filter(
      ({ partition, offset, value }) => stored.get(partition)?.[offset] !== value,
    );
    expect(lost.slice(0, 5), "acknowledged records that are not at their offset").toEqual([]);
    const values = [...stored.values()].flat();
    expect(new Set(values).size, "distinct records").toBe(values.length);
    for (const [partition, records] of stored) {
      expect(records.includes(undefined as never), `a gap in partition ${partition}`).toBe(false);
    }
  });
});

/** Kafka's verifiable producer prints each acknowledgement with its partition and offset. */
async function producing(
  bootstrap: string,
  topic: string,
  acked: Acked[],
  signal: AbortSignal,
): Promise<void> {
  const config = join(home, `producer-${topic}.properties`);
  writeFileSync(config, `${PRODUCER.join("\n")}\n`);
  const failures: string[] = [];
  await kafkaTool(
    "VerifiableProducer",
    [
      "--bootstrap-server",
      bootstrap,
      "--topic",
      topic,
      "--throughput",
      String(THROUGHPUT),
      "--acks",
      "-1",
      "--producer.config",
      config,
    ],
    {
      signal,
      onLine: (line) => {
        if (!line.startsWith("{")) return;
        const event = JSON.parse(line);
        if (event.name === "producer_send_success") acked.push(event);
        if (event.name === "producer_send_error") failures.push(event.message);
      },
    },
  );
  expect(failures.slice(0, 3), "sends that failed for good").toEqual([]);
}

function brokerPid(clusterId: string): number {
  const file = join(home, "clusters", clusterId, "broker.pid");
  if (!existsSync(file)) throw new Error(`no ${file}`);
  const text = readFileSync(file, "utf8");
  return Number(text.startsWith("{") ? JSON.parse(text).pid : text.split("\n")[0]);
}

async function wasDegraded(clusterId: string): Promise<number> {
  for (let waited = 0; waited < 100; waited++) {
    const { body } = await rest("GET", `/v1/clusters/${clusterId}`);
    if (body.status.phase === "DEGRADED") return 1;
    await sleep(30);
  }
  return 0;
}

/** All records by partition and offset. */
async function readBack(bootstrap: string, topic: string): Promise<Map<number, string[]>> {
  const stored = new Map<number, string[]>();
  await runLines(
    process.env.MILLRACE_KCAT || "kcat",
    ["-C", "-b", bootstrap, "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%p %o %s\\n"],
    {
      onLine: (line) => {
        const [partition, offset, value] = line.split(" ") as [string, string, string];
        const records = stored.get(Number(partition)) ?? [];
        records[Number(offset)] = value;
        stored.set(Number(partition), records);
      },
    },
  );
  return stored;
}
