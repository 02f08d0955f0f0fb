import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Cluster, MetricScrape } from "@millrace/domain";
import { systemClock } from "@millrace/domain";
import type { ClusterDrivers } from "@millrace/provisioner";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { BrokerScraper } from "./broker-scraper.ts";

const HEALTHY = "clu_01JD0000000000000000000000";
const HANGING = "clu_01JD0000000000000000000001";

let server: Server;
let adminUrl: string;
let scrapes: MetricScrape[];
let lines: string[];
let clusters: string[];
let scraper: BrokerScraper;

beforeEach(async () => {
  server = createServer((request, response) => {
    // One broker answers, the other takes the request and says nothing.
    if (request.headers.authorization === `Bearer ${HEALTHY}`) {
      if (request.url === "/v1/status") return response.end(JSON.stringify({ uptime_ms: 60_000 }));
      // What it says of its groups cannot be read: the lag fails.
      response.end('millrace_topic_bytes_in_total{topic="orders"} 42\n');
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  adminUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  scrapes = [];
  lines = [];
  clusters = [HEALTHY, HANGING];
  const driver = {
    access: async ({ clusterId }: { clusterId: string }) => ({
      adminUrl,
      adminToken: clusterId,
    }),
  };
  scraper = new BrokerScraper({
    db: {
      fleet: { clusters: { inPhases: async () => clusters.map((id) => ({ id }) as Cluster) } },
      tenant: () => ({
        metrics: {
          addScrapes: async (added: MetricScrape[]) => void scrapes.push(...added),
          latest: async (_ids: string[], since: Date) => scrapes.filter(({ at }) => at >= since),
          addTopicScrapes: async () => {},
          addLag: async () => {},
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
      brokers: 1,
      paused: false,
      plaintextListener: true,
      labels: {},
      placement: { host: "127.0.0.1", kafkaPort: 1, adminPort: 1 },
      walCapacityBytes: 1,
      properties: {},
    }),
    clock: systemClock,
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
    return scrapes.length;
  };
  await expect.poll(rounds, { timeout: 1_800, interval: 10 }).toBeGreaterThanOrEqual(3);
  expect(scrapes.every((scrape) => scrape.clusterId === HEALTHY)).toBe(true);
  // The broker's start comes first, once.
  const [start, first] = scrapes;
  expect([start?.bytesIn, first?.bytesIn]).toEqual([0n, 42n]);
  const seconds = ((first?.at.getTime() ?? 0) - (start?.at.getTime() ?? 0)) / 1_000;
  expect(seconds).toBeGreaterThan(55);
  expect(scrapes.filter(({ bytesIn }) => bytesIn === 0n)).toHaveLength(1);
});

test("a failure is logged once, not every round", async () => {
  clusters = [HEALTHY];
  const rounds = async () => {
    await scraper.runOnce();
    return scrapes.length;
  };
  await expect.poll(rounds, { timeout: 5_000, interval: 10 }).toBeGreaterThanOrEqual(3);
  await scraper.close();
  expect(lines.filter((line) => line.includes("metrics cannot be read"))).toHaveLength(1);
});
