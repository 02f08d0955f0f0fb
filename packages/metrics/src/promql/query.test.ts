import { readFileSync } from "node:fs";
import type { ClusterId, MetricScrape, TopicScrape } from "@millrace/domain";
import { describe, expect, test } from "vitest";
import type { ClusterReadings, PromqlReadings } from "./load-series.ts";
import { parseQuery } from "./parse.ts";
import { findSeries, queryAt, queryOver } from "./query.ts";

const CLUSTER = "clu_a" as ClusterId;
const NOW_MS = Date.UTC(2026, 5, 1);
const DAY_MS = 86_400_000;

interface Asked {
  readonly kind: string;
  readonly source: string | number | undefined;
  readonly from: number;
  readonly to: number;
  readonly step: number;
}

/** Readings every ten seconds, and what was asked for them; `count` is what the store says of each. */
function cluster(count: (step: number) => number = () => 0): ClusterReadings & { asked: Asked[] } {
  const asked: Asked[] = [];
  const note = (
    kind: string,
    source: string | number | undefined,
    { from, to }: { from: Date; to: Date },
    step: number,
  ) => {
    asked.push({ kind, source, from: NOW_MS - from.getTime(), to: NOW_MS - to.getTime(), step });
  };
  const times = Array.from({ length: 61 }, (_, index) => NOW_MS - (60 - index) * 10_000);
  const topic = (name: string) =>
    times.map((atMs, index): TopicScrape => {
      const source = { clusterId: CLUSTER, brokerId: 0, topic: name, at: new Date(atMs) };
      const n = BigInt(index * 10);
      return { ...source, afterGap: false, bytesIn: n, bytesOut: n, recordsIn: n };
    });
  const readings: PromqlReadings = {
    countUpTo: async (_, __, step) => count(step),
    scrapes: async (_, range, step, brokerId) => {
      note("broker", brokerId, range, step);
      return times.map((atMs) => scrape(new Date(atMs)));
    },
    topicScrapes: async (_, name, range, step) => {
      note("topics", name, range, step);
      return name === undefined ? [...topic("a"), ...topic("b")] : topic(name);
    },
    lag: async (_, range, step, groupId) => {
      note("groups", groupId, range, step);
      return times.map((atMs) => ({
        clusterId: CLUSTER,
        groupId: "g",
        at: new Date(atMs),
        lag: 3n,
        idle: false,
      }));
    },
  };
  return { readings, clusterId: CLUSTER, clusterName: "orders", nowMs: NOW_MS, asked };
}

function scrape(at: Date): MetricScrape {
  const counted = { bytesIn: 0n, bytesOut: 0n, recordsIn: 0n, networkWaitUs: 0n, connections: 2 };
  const cache = { cacheHits: 1n, cacheMisses: 2n, cacheFetchedBytes: 3n, cacheDeliveredBytes: 4n };
  return {
    ...{ clusterId: CLUSTER, brokerId: 0, at, afterGap: false, ...counted, ...cache },
    ...{ produceBuckets: [1n, 2n], fetchBuckets: [0n, 5n], bucketBoundsUs: [500] },
    ...{ tierBytes: [1n, 2n, 3n, 4n, 5n], tierWaitUs: [] },
  };
}

const lastMinutes = (minutes: number, stepSeconds: number, age = 0) => ({
  startMs: NOW_MS - age - minutes * 60_000,
  endMs: NOW_MS - age,
  stepMs: stepSeconds * 1_000,
});

describe("readings", () => {
  test("are those of the kind, the source and the time that a selector is about", async () => {
    const readings = cluster();
    const query =
      'rate(millrace_topic_bytes_in_total{topic="a"}[5m] offset 1m) / on() millrace_group_lag';
    const { result } = await queryAt(readings, query, NOW_MS);
    expect(result).toMatchObject([{ value: [NOW_MS / 1_000, "0.3333333333333333"] }]);
    expect(readings.asked).toEqual([
      { kind: "topics", source: "a", from: 360_000, to: 59_999, step: 10 },
      { kind: "groups", source: undefined, from: 180_000, to: -1, step: 10 },
    ]);
  });

  test("are none where the name or the cluster is another", async () => {
    const readings = cluster();
    const renamed = `millrace_connections{cluster_id="${CLUSTER}",cluster!="old name"}`;
    expect((await queryAt(cluster(), renamed, NOW_MS)).result).toHaveLength(1);
    const other = 'millrace_connections{cluster_id="clu_x"}';
    for (const query of [
      "up",
      other,
      'millrace_connections{cluster="x"}',
      '{__name__=~"node_.*"}',
    ]) {
      expect((await queryAt(readings, query, NOW_MS)).result).toEqual([]);
    }
    expect(readings.asked).toEqual([]);
  });

  test("are as coarse as a window allows where there are too many, and an error beyond that", async () => {
    const query = "rate(millrace_topic_bytes_in_total[5m])";
    const many = cluster((step) => 4_000_000 / step);
    await queryOver(many, query, lastMinutes(60, 60));
    expect(many.asked.map(({ step }) => step)).toEqual([60]);
    const tooMany = cluster(() => 400_000);
    await expect(queryOver(tooMany, query, lastMinutes(60, 60))).rejects.toThrow(
      /too many readings/,
    );
    expect(tooMany.asked).toEqual([]);
  });

  test("have one bound for all selectors of a query", async () => {
    const half = cluster(() => 200_000);
    const query = "millrace_topic_bytes_in_total";
    await queryOver(half, query, lastMinutes(60, 60));
    const twice = `${query} + ${query}`;
    await expect(queryOver(half, twice, lastMinutes(60, 60))).rejects.toThrow(/too many readings/);
  });

  test("that are old are few, and count for longer", async () => {
    const readings = cluster();
    await queryOver(readings, "millrace_connections", lastMinutes(10, 10, 3 * DAY_MS));
    await queryOver(readings, "millrace_connections", lastMinutes(10, 10, 20 * DAY_MS));
    expect(readings.asked.map(({ step }) => step)).toEqual([60, 600]);
    const [first, second] = readings.asked;
    expect([first?.from, second?.from]).toEqual([
      3 * DAY_MS + 13 * 60_000,
      20 * DAY_MS + 40 * 60_000,
    ]);
  });

  test("that stop leave a gap once two more should have come", async () => {
    const lagAfter = async (ms: number) =>
      (await queryAt(cluster(), "millrace_group_lag", NOW_MS + ms)).result;
    expect(await lagAfter(29_000)).toHaveLength(1);
    expect(await lagAfter(30_000)).toEqual([]);
  });
});

test("series have the names and labels that brokers give them", async () => {
  const found = await findSeries(cluster(), [], { fromMs: 0, toMs: NOW_MS });
  const texts = found.map(String);
  expect(texts).toContain(
    `{__name__="millrace_request_seconds_bucket", api="Produce", broker="0", cluster="orders", cluster_id="${CLUSTER}", le="0.0005"}`,
  );
  expect(texts).toContain(
    `{__name__="millrace_network_bytes_total", broker="0", cluster="orders", cluster_id="${CLUSTER}", tier="tail_read"}`,
  );
  expect(texts).toContain(
    `{__name__="millrace_group_lag", cluster="orders", cluster_id="${CLUSTER}", group="g"}`,
  );
  expect(texts).toHaveLength(2 * 3 + 5 + 5 + 2 + 2 + 1);
});

describe("the dashboard", () => {
  const file = new URL("../../../../infra/monitoring/dashboard.json", import.meta.url);
  const { panels } = JSON.parse(readFileSync(file, "utf8")) as {
    panels: { title: string; targets: { expr: string }[] }[];
  };
  const queriesOf = ({ targets }: (typeof panels)[number]) =>
    targets.map(({ expr }) =>
      expr.replaceAll("$__rate_interval", "1m").replaceAll("$cluster", "orders"),
    );

  test("has queries, and each is understood", () => {
    const queries = panels.flatMap(queriesOf);
    expect(queries.length).toBeGreaterThan(0);
    for (const query of queries) parseQuery(query);
  });

  test("has data from stored readings in the panels that OPERATIONS.md names", async () => {
    const filled: string[] = [];
    for (const panel of panels) {
      const answers = await Promise.all(
        queriesOf(panel).map((query) => queryAt(cluster(), query, NOW_MS)),
      );
      if (answers.every(({ result }) => Array.isArray(result) && result.length > 0)) {
        filled.push(panel.title);
      }
    }
    expect(filled).toEqual([
      "Produced and consumed",
      "Produce latency",
      "Network by tier",
      "Block cache hits",
      "Connections",
      "Lag of consumer groups",
    ]);
    const page = readFileSync(new URL("../../../../OPERATIONS.md", import.meta.url), "utf8");
    for (const title of filled) expect(page).toContain(`"${title}"`);
  });
});

test.each([
  ["a + group_left b", "1:5: parse error: unexpected group_left b"],
  ["a + on(x) group_left b", "1:11: parse error: group_left is not supported"],
  ["a @ 5", "1:1: parse error: the @ modifier is not supported"],
  ["1 +\n absent(a)", "2:2: parse error: the function absent is not supported"],
  ["quantile(0.5, a)", "1:1: parse error: the aggregation quantile is not supported"],
  ["1 atan2 2", "1:3: parse error: the operator atan2 is not supported"],
  ["(a)[5m]", "1:1: parse error: a range is only supported directly after a selector"],
  ["a offset (1m + 2m)", "1:10: parse error: the duration (1m + 2m) is not supported"],
  ["rate(a)", "1:6: parse error: expected type matrix in call to function rate, got vector"],
  ["1 < 2", "1:1: parse error: comparisons between scalars must use BOOL modifier"],
  ['{a=""}', "1:1: parse error: vector selector must contain at least one non-empty matcher"],
  ["a{b='\\q'}", "1:5: parse error: unknown escape sequence \\q"],
  ["a{b=~'('}", "1:3: parse error: error parsing regexp: missing closing ): `(`"],
  ["nosuchfn(1)", "1:1: parse error: unknown function nosuchfn"],
  ["1 +\n sum(nosuchfn (a))", "2:6: parse error: unknown function nosuchfn"],
  ["sum by (x) (a) (b)", "1:16: parse error: unexpected (b)"],
  [
    `${"(".repeat(3_000)}1${")".repeat(3_000)}`,
    "1:101: parse error: nested too deep: more than 100 levels",
  ],
  [`${"-".repeat(9_000)}a`, "nested too deep: more than 100 levels"],
  [`${"-".repeat(150)}a`, "nested too deep: more than 100 levels"],
  ['x{a="(((("}((', "1:12: parse error: unexpected (("],
  ["constructor(a)", "1:1: parse error: unexpected constructor(a)"],
  ["sum(a", "1:6: parse error: unexpected end of input"],
])("%s is refused, with its place", (query, message) => {
  expect(() => parseQuery(query)).toThrow(message);
});
