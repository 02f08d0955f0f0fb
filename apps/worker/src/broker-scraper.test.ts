import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { MetricReadings } from "@millrace/db";
import type { Cluster, MetricScrape, TopicScrape } from "@millrace/domain";
import { systemClock } from "@millrace/domain";
import { readScrape } from "@millrace/metrics";
import type { ClusterDrivers } from "@millrace/provisioner";
import { ManualClock } from "@millrace/testkit";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BrokerScraper } from "./broker-scraper.ts";

const HEALTHY = "clu_01JD0000000000000000000000";
const HANGING = "clu_01JD0000000000000000000001";

let server: Server;
let adminUrl: string;
/** In the order of their writing. */
let stored: (MetricScrape & { resolution: number })[];
/** As `stored`, of topics. */
let storedTopics: (TopicScrape & { resolution: number })[];
/** Records of topics beside `orders`. */
let records: Record<string, number>;
/** What another worker stored. */
let earlier: MetricScrape | undefined;
/** Clusters whose readings were put into chunks. */
let compacted: string[];
let brokers: number;
/** Brokers that take requests and say nothing. */
let silent: Set<number>;
let held: boolean;
let watched: boolean;
let paused: boolean;
let clock: ManualClock | typeof systemClock;
let counted: number | undefined;
let uptimeMs: number;
let lines: string[];
let clusters: string[];
let scraper: BrokerScraper;

beforeEach(async () => {
  server = createServer((request, response) => {
    // One broker answers, the other takes the request and says nothing.
    if (request.headers.authorization !== `Bearer ${HANGING}`) {
      if (request.url === "/v1/status")
        return response.end(JSON.stringify({ uptime_ms: uptimeMs }));
      // What it says of its groups cannot be read: the lag fails.
      if (counted === undefined) return response.writeHead(503).end();
      const le = 'api="Produce",le="+Inf"';
      const others = Object.entries(records).map(
        ([topic, count]) => `millrace_topic_records_in_total{topic="${topic}"} ${count}\n`,
      );
      response.end(
        `${others.join("")}millrace_topic_bytes_in_total{topic="orders"} ${counted}\nmillrace_request_seconds_bucket{${le}} ${counted}\n`,
      );
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  adminUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  stored = [];
  storedTopics = [];
  records = {};
  earlier = undefined;
  compacted = [];
  brokers = 1;
  silent = new Set();
  held = true;
  watched = true;
  paused = false;
  clock = systemClock;
  counted = 42;
  uptimeMs = 60_000;
  lines = [];
  clusters = [HEALTHY, HANGING];
  const driver = {
    access: async ({ clusterId }: { clusterId: string }, brokerId = 0) => ({
      adminUrl,
      adminToken: silent.has(brokerId) ? HANGING : clusterId,
    }),
  };
  scraper = new BrokerScraper({
    db: {
      fleet: {
        clusters: { inPhases: async () => clusters.map((id) => ({ id, paused }) as Cluster) },
        scrapeLeases: {
          claim: async ({ clusterIds }: { clusterIds: string[] }) =>
            clusterIds.filter(() => held).map((clusterId) => ({ clusterId, watched })),
          release: async () => {},
        },
      },
      tenant: () => ({
        metrics: {
          add: async (readings: MetricReadings[]) => {
            for (const { resolution, brokers = [], topics = [] } of readings) {
              stored.push(...brokers.map((scrape) => ({ resolution, ...scrape })));
              storedTopics.push(...topics.map((scrape) => ({ resolution, ...scrape })));
            }
          },
          newest: async (_: string, brokerId: number) =>
            stored.findLast((scrape) => scrape.brokerId === brokerId) ?? earlier,
          topicScrapes: async (
            _: string,
            topic: string | undefined,
            range: { from: Date; to: Date },
          ) => {
            expect(topic).toBeUndefined();
            return storedTopics.filter(({ at }) => at >= range.from && at < range.to);
          },
          compact: async (clusterId: string) => {
            compacted.push(clusterId);
            return false;
          },
        },
      }),
    } as never,
    drivers: { find: () => driver } as unknown as ClusterDrivers,
    deploymentOf: ({ id }) => ({
      clusterId: id,
      organizationId: "org_a",
      environmentId: "env_a",
      name: "orders",
      region: "local",
      size: "dev",
      brokers,
      paused: false,
      plaintextListener: true,
      labels: {},
      placement: { host: "127.0.0.1", kafkaPort: 1, adminPort: 1 },
      walCapacityBytes: 1,
      properties: {},
    }),
    clock: { now: () => clock.now() },
    workerId: "w",
    logger: pino({ level: "warn" }, { write: (line: string) => void lines.push(line) }),
  });
});

afterEach(async () => {
  server.closeAllConnections();
  await scraper.close();
  server.close();
});

test("a broker that hangs leaves no gaps in another's series", async () => {
  // The hanging broker's reading takes two seconds; in less, the other one is read three times.
  const rounds = async () => {
    await scraper.runOnce();
    return stored.length;
  };
  await expect.poll(rounds, { timeout: 1_800, interval: 10 }).toBeGreaterThanOrEqual(3);
  expect(stored.every((scrape) => scrape.clusterId === HEALTHY)).toBe(true);
  // The broker's start comes first, once.
  const [start, first] = stored;
  expect([start?.bytesIn, first?.bytesIn]).toEqual([0n, 42n]);
  const seconds = ((first?.at.getTime() ?? 0) - (start?.at.getTime() ?? 0)) / 1_000;
  expect(seconds).toBeGreaterThan(55);
  expect(stored.filter(({ bytesIn }) => bytesIn === 0n)).toHaveLength(1);
});

test("a failure is logged once, not every round", async () => {
  clusters = [HEALTHY];
  const rounds = async () => {
    await scraper.runOnce();
    return stored.length;
  };
  await expect.poll(rounds, { timeout: 5_000, interval: 10 }).toBeGreaterThanOrEqual(3);
  await scraper.close();
  expect(lines.filter((line) => line.includes("metrics cannot be read"))).toHaveLength(1);
});

/** One round, waited for. */
async function round(): Promise<void> {
  await scraper.runOnce();
  await scraper.idle();
}

/** Rounds every two seconds until `seconds` have passed. */
async function rounds(seconds: number): Promise<void> {
  for (let passed = 0; passed < seconds; passed += 2) {
    (clock as ManualClock).advance(2_000);
    await round();
  }
}

describe("with a clock of its own", () => {
  const T0 = Date.UTC(2026, 10, 21, 12);
  beforeEach(() => {
    clock = new ManualClock(new Date(T0));
    clusters = [HEALTHY];
    uptimeMs = 3_600_000;
  });

  test("a cluster that nobody looks at is read every ten seconds, one that is watched every two", async () => {
    watched = false;
    await round();
    await rounds(60);
    expect(stored.length).toBe(7);
    watched = true;
    await rounds(60);
    expect(stored.length).toBe(37);
    const count = (resolution: number) => stored.filter((each) => each.resolution === resolution);
    // The first reading begins after a gap, and belongs to every resolution.
    expect([count(600).length, count(60).length]).toEqual([1, 2]);
    expect(count(10).length).toBeGreaterThanOrEqual(9);
  });

  test("a cluster has a reading in each ten seconds, whenever rounds fall", async () => {
    watched = false;
    // Moments of reading all over the ten seconds.
    for (let index = 0; index < 40; index += 1) {
      await scraper.close();
      stored = [];
      earlier = undefined;
      const manual = new ManualClock(new Date(T0));
      clock = manual;
      clusters = [`clu_${100 + index}D0000000000000000000000`];
      await round();
      for (let rounds = 1; rounds < 60; rounds += 1) {
        manual.advance(1_950 + ((rounds * 37) % 200));
        await round();
      }
      const of = ({ at }: MetricScrape) => Math.floor(at.getTime() / 10_000);
      const stretches = stored.filter(({ resolution }) => resolution >= 10).map(of);
      const first = stretches[0] ?? 0;
      expect(stretches).toEqual(stretches.map((_, index) => first + index));
      expect(stretches.length).toBeGreaterThan(10);
    }
  });

  test("nothing is read without a lease, nor of a paused cluster", async () => {
    held = false;
    await rounds(20);
    held = true;
    paused = true;
    await rounds(20);
    expect(stored).toEqual([]);
  });

  test("a missed reading is no gap, a broker that is down is one, at every resolution", async () => {
    await round();
    counted = undefined;
    await rounds(20);
    counted = 50;
    await rounds(2);
    expect(stored.map(({ afterGap }) => afterGap)).toEqual([true, false]);
    counted = undefined;
    await rounds(60);
    counted = 70;
    await rounds(2);
    const [last, first] = stored.slice(-2);
    expect([last?.bytesIn, last?.resolution]).toEqual([50n, 600]);
    expect([first?.bytesIn, first?.resolution, first?.afterGap]).toEqual([70n, 600, true]);
  });

  test("a paused cluster leaves a gap", async () => {
    await round();
    paused = true;
    await rounds(60);
    paused = false;
    await rounds(2);
    expect(stored.at(-1)).toMatchObject({ afterGap: true, resolution: 600 });
  });

  test("a restart keeps what was counted before it at every resolution, and is no gap", async () => {
    await round();
    counted = 100;
    await rounds(2);
    counted = 3;
    await rounds(2);
    const [before, after] = stored.slice(-2);
    expect([before?.bytesIn, before?.resolution]).toEqual([100n, 600]);
    expect([after?.bytesIn, after?.resolution, after?.afterGap]).toEqual([3n, 600, false]);
  });

  test("a worker that takes over continues where the other one ended", async () => {
    const at = new Date(T0 - 8_000);
    const source = { clusterId: HEALTHY, brokerId: 0, at } as const;
    earlier = readScrape(source, []).broker;
    await round();
    expect(stored.map(({ afterGap }) => afterGap)).toEqual([false]);
  });

  /** Seconds since T0 and records of what is stored of a topic. */
  const storedOf = (name: string) =>
    storedTopics
      .filter(({ topic }) => topic === name)
      .map(({ at, recordsIn }) => [Math.round((at.getTime() - T0) / 1_000), Number(recordsIn)]);

  test("a topic that appears began at zero after the reading before, at every resolution", async () => {
    await round();
    expect(storedOf("fresh")).toEqual([]);
    records = { fresh: 100 };
    await rounds(2);
    expect(storedOf("fresh")).toEqual([[0, 0]]);
    expect(storedTopics.at(-1)).toMatchObject({ resolution: 600, afterGap: true });
    await rounds(10);
    expect(storedOf("fresh").slice(0, 2)).toEqual([
      [0, 0],
      [10, 100],
    ]);
    expect(storedOf("fresh").filter(([, count]) => count === 0)).toHaveLength(1);
  });

  test("a topic that was deleted and is created again begins at zero again", async () => {
    records = { again: 100 };
    await round();
    records = {};
    await rounds(10);
    records = { again: 300 };
    await rounds(2);
    expect(storedOf("again")).toEqual([
      [0, 100],
      [10, 0],
    ]);
  });

  test("a worker that takes over knows the topics of the other one", async () => {
    records = { old: 100 };
    await round();
    await scraper.close();
    records = { old: 200, fresh: 50 };
    await rounds(10);
    expect(storedOf("old").map(([, count]) => count)).toEqual([100, 200]);
    expect(storedOf("fresh")[0]).toEqual([0, 0]);
  });

  test("topics that have counted for long, or in a gap, get no zero", async () => {
    records = { old: 100 };
    await round();
    paused = true;
    await rounds(60);
    paused = false;
    records = { old: 200, fresh: 50 };
    await rounds(2);
    expect([...storedOf("old"), ...storedOf("fresh")].map(([, count]) => count)).toEqual([
      ...[100, 200, 50],
    ]);
  });

  test("every topic begins at zero where the broker started", async () => {
    uptimeMs = 60_000;
    records = { old: 100 };
    await round();
    expect(storedOf("old")).toEqual([
      [-60, 0],
      [0, 100],
    ]);
    // It restarts and has counted more than before by the next reading.
    counted = 3;
    records = { old: 500 };
    await rounds(2);
    expect(storedOf("old").slice(-2)).toEqual([
      [0, 0],
      [2, 500],
    ]);
  });

  test("readings are put into chunks every ten minutes", async () => {
    watched = false;
    await rounds(1_200);
    expect(compacted).toEqual([HEALTHY, HEALTHY]);
  });
});

test("each of several brokers is read, and one that says nothing keeps nobody from the others", async () => {
  clusters = [HEALTHY];
  brokers = 3;
  silent.add(2);
  await scraper.runOnce();
  await scraper.idle();
  const ids = (readings: readonly { brokerId: number }[]) =>
    [...new Set(readings.map(({ brokerId }) => brokerId))].sort();
  expect(ids(stored)).toEqual([1, 3]);
  expect(ids(storedTopics)).toEqual([1, 3]);
  silent.clear();
  await scraper.runOnce();
  await scraper.idle();
  expect(ids(stored)).toEqual([1, 2, 3]);
});
