import { type ClusterId, resolutionAt } from "@millrace/domain";
import { runSql, setUp } from "@millrace/testkit";
import { describe, expect, test } from "vitest";
import { type Answer, apiFixture, call, personOfRole, runningCluster } from "./fixture.ts";

const fixture = apiFixture();
const READING_MS = 10_000;
/** A minute that is over, so that every reading below is stored. */
const END_MS = Math.floor(Date.now() / 60_000) * 60_000;
const BEGIN_MS = END_MS - 30 * 60_000;
const API_PATH = "prometheus/api/v1";
const FORM = "application/x-www-form-urlencoded";

let base = "";

setUp(async () => {
  const { cluster } = await runningCluster(fixture.db, fixture.ours, "queried");
  base = `/v1/clusters/${cluster.id}/${API_PATH}`;
  await store(cluster.id);
});

/** Half an hour of a broker: 1,000 bytes and 10 produces a second, the broker restarts after a quarter. */
async function store(id: ClusterId): Promise<void> {
  const { metrics } = fixture.db;
  await fixture.db.fleet.metrics.preparePartitions({
    from: new Date(BEGIN_MS),
    to: new Date(END_MS),
  });
  for (let atMs = BEGIN_MS; atMs <= END_MS; atMs += READING_MS) {
    const at = new Date(atMs);
    const begunMs = atMs < BEGIN_MS + 15 * 60_000 ? BEGIN_MS : BEGIN_MS + 15 * 60_000;
    const seconds = BigInt((atMs - begunMs) / 1_000);
    const source = { clusterId: id, brokerId: 0, at, afterGap: false };
    const counted = { bytesIn: 1_000n * seconds, bytesOut: 500n * seconds, recordsIn: seconds };
    const fast = 9n * seconds;
    const cache = {
      cacheHits: 0n,
      cacheMisses: 0n,
      cacheFetchedBytes: 0n,
      cacheDeliveredBytes: 0n,
    };
    const broker = {
      ...{ ...source, ...counted, ...cache, connections: 7, networkWaitUs: 0n },
      bucketBoundsUs: [1_000, 2_000],
      produceBuckets: [fast, 10n * seconds, 10n * seconds],
      fetchBuckets: [0n, 0n, 0n],
      tierBytes: [seconds, 0n, 0n, 0n, 0n],
      tierWaitUs: [0n, 0n, 0n, 0n, 0n],
    };
    const topics = ["orders", "payments"].map((topic) => ({ ...source, ...counted, topic }));
    const lag = [{ clusterId: id, groupId: "billing", at, lag: 42n, idle: false }];
    const before = atMs === BEGIN_MS ? undefined : new Date(atMs - READING_MS);
    await metrics.add([{ resolution: resolutionAt(before, at), brokers: [broker], topics, lag }]);
  }
}

function get(path: string, parameters: Record<string, string> = {}): Promise<Answer> {
  const query = new URLSearchParams(parameters);
  return call(fixture.app, "GET", `${base}/${path}?${query}`, { apiKey: fixture.ours.apiKey });
}

async function post(path: string, parameters: Record<string, string>): Promise<Answer> {
  const response = await fixture.app.request(`${base}/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${fixture.ours.apiKey}`, "content-type": FORM },
    body: new URLSearchParams(parameters).toString(),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

const seconds = (timeMs: number) => `${timeMs / 1_000}`;
const WHOLE = { start: seconds(BEGIN_MS), end: seconds(END_MS) };

describe("metrics of one topic, group or broker", () => {
  const path = (query: string, name = base.split("/")[3]) => `/v1/clusters/${name}/metrics${query}`;
  const ask = (query: string) =>
    call(fixture.app, "GET", path(query), { apiKey: fixture.ours.apiKey });
  const range = `from=${BEGIN_MS}&to=${END_MS}`;

  test("that neither exist nor have values are not found", async () => {
    for (const source of ["topic=nope", "group=nope", "broker=7", "topic=__internal"]) {
      for (const of of ["", "/export"]) {
        const answer = await ask(`${of}?${range}&${source}`);
        expect([source, answer.status, answer.body.code]).toEqual([source, 404, "not_found"]);
      }
    }
  });

  test("that were deleted are answered from their history", async () => {
    for (const source of ["topic=orders", "group=billing", "broker=0"]) {
      const { status, body } = await ask(`?${range}&${source}`);
      expect([source, status]).toEqual([source, 200]);
      expect(body.series[0].points.some(([, value]: unknown[]) => value !== null)).toBe(true);
    }
  });

  test("that exist and have no values are answered, as they are where the cluster is paused", async () => {
    const { app, db, ours } = fixture;
    const { cluster } = await runningCluster(db, ours, "unread");
    const { apiKey } = ours;
    const query = (source: string) => call(app, "GET", path(`?${source}`, cluster.id), { apiKey });
    const body = { name: "quiet" };
    await call(app, "POST", `/v1/clusters/${cluster.id}/topics`, { apiKey, body });
    expect((await query("topic=quiet")).status).toBe(200);
    expect((await query("broker=0")).status).toBe(200);
    expect((await query("topic=nope")).status).toBe(404);
    await runSql(
      fixture.ownerUrl,
      `UPDATE cluster SET phase = 'PAUSED' WHERE id = '${cluster.id}'`,
    );
    expect((await query("topic=nope")).status).toBe(200);
  });
});

describe("what Grafana asks", () => {
  test("whether this is a data source", async () => {
    const build = await get("status/buildinfo");
    expect(build.body).toMatchObject({ status: "success", data: { version: "3.0.0" } });
    const sum = await post("query", { query: "1+1", time: seconds(END_MS) });
    expect(sum.status).toBe(200);
    expect(sum.body).toEqual({
      status: "success",
      data: { resultType: "scalar", result: [END_MS / 1_000, "2"] },
    });
    const { body } = await get("metadata", { metric: "millrace_connections" });
    expect(Object.keys(body.data)).toEqual(["millrace_connections"]);
  });

  test("names of labels, their values and series", async () => {
    const labels = await post("labels", WHOLE);
    expect(labels.body.data).toEqual([
      ...["__name__", "api", "broker", "cluster", "cluster_id", "group", "le", "tier", "topic"],
    ]);
    const topics = await get("label/topic/values", {
      ...WHOLE,
      "match[]": "millrace_topic_bytes_in_total",
    });
    expect(topics.body.data).toEqual(["orders", "payments"]);
    const names = await get("label/__name__/values", { ...WHOLE, limit: "2" });
    expect(names.body.data).toEqual([
      ...["millrace_block_cache_delivered_bytes_total", "millrace_block_cache_fetched_bytes_total"],
    ]);
    const series = await post("series", { ...WHOLE, "match[]": '{group!="",cluster="queried"}' });
    expect(series.body.data).toEqual([
      {
        __name__: "millrace_group_lag",
        ...{ cluster: "queried", cluster_id: base.split("/")[3], group: "billing" },
      },
    ]);
    expect((await get("series", WHOLE)).body.errorType).toBe("bad_data");
  });

  test("rates, across a restart", async () => {
    const query = 'sum by (topic) (rate(millrace_topic_bytes_in_total{cluster=~"queried|x"}[1m]))';
    const start = seconds(BEGIN_MS + 60_000);
    const { status, body } = await post("query_range", {
      query,
      start,
      end: WHOLE.end,
      step: "1m",
    });
    expect(status).toBe(200);
    expect(body.data.resultType).toBe("matrix");
    expect(body.data.result.map(({ metric }: { metric: object }) => metric)).toEqual([
      ...[{ topic: "orders" }, { topic: "payments" }],
    ]);
    const [{ values }] = body.data.result;
    expect(values).toHaveLength(30);
    for (const [, value] of values.slice(2, 13)) expect(Number(value)).toBeCloseTo(1_000, 6);
    const restarted = Number(values[14][1]);
    expect(restarted).toBeGreaterThan(700);
    expect(restarted).toBeLessThanOrEqual(1_000);
  });

  test("percentiles, gauges and several kinds in one query", async () => {
    const time = seconds(END_MS);
    const p95 =
      "histogram_quantile(0.95, sum by (le) (rate(millrace_request_seconds_bucket{api='Produce'}[5m])))";
    const { body } = await get("query", { query: p95, time });
    expect(Number(body.data.result[0].value[1])).toBeCloseTo(0.0015, 9);
    const both = await get("query", {
      query: "millrace_connections + on() millrace_group_lag",
      time,
    });
    expect(both.body.data.result).toEqual([{ metric: {}, value: [END_MS / 1_000, "49"] }]);
    const old = await get("query", {
      query: "millrace_connections",
      time: seconds(END_MS + 301_000),
    });
    expect(old.body.data.result).toEqual([]);
    const raw = await get("query", { query: "millrace_connections[25s]", time });
    expect(raw.body.data.result[0].values).toHaveLength(3);
  });
});

describe("who may not", () => {
  test("another tenant's cluster does not exist, whatever is asked", async () => {
    const { app, theirs } = fixture;
    const paths = [
      "query?query=1",
      "query_range",
      "series",
      "labels?limit=x",
      "label/topic/values",
    ];
    for (const path of [...paths, "metadata", "status/buildinfo"]) {
      for (const method of ["GET", "POST"]) {
        const { status, body } = await call(app, method, `${base}/${path}`, {
          apiKey: theirs.apiKey,
        });
        expect([path, method, status, body.code]).toEqual([path, method, 404, "not_found"]);
      }
    }
  });

  test("nobody without a key, and a series of another tenant's cluster is in no answer", async () => {
    const { app, db, theirs } = fixture;
    expect((await call(app, "GET", `${base}/query?query=1`)).status).toBe(401);
    const { cluster } = await runningCluster(db, theirs, "queried");
    const path = `/v1/clusters/${cluster.id}/${API_PATH}/query?query=millrace_connections`;
    const { body } = await call(app, "GET", `${path}&time=${seconds(END_MS)}`, {
      apiKey: theirs.apiKey,
    });
    expect(body.data.result).toEqual([]);
  });

  test("a role without metrics:read, and the audit log has it", async () => {
    const { app, ours } = fixture;
    const { apiKey } = ours;
    const permissions = ["topic:read"];
    const role = await call(app, "POST", "/v1/roles", {
      apiKey,
      body: { name: "topics", permissions },
    });
    const viewer = await personOfRole(fixture, "viewer");
    const { body } = await call(app, "GET", "/v1/members", { apiKey });
    const member = body.items.find(({ role: one }: { role: string }) => one === "viewer");
    const custom_role_id = role.body.id;
    const given = await call(app, "PATCH", `/v1/members/${member.id}`, {
      apiKey,
      body: { custom_role_id },
    });
    expect(given.status).toBe(200);
    const refused = await call(app, "GET", `${base}/query?query=1`, { headers: viewer });
    expect([refused.status, refused.body.code]).toEqual([403, "forbidden"]);
    const events = await call(app, "GET", "/v1/audit-events?result=denied", { apiKey });
    expect(events.body.items[0]).toMatchObject({ method: "metrics.promql" });
  });
});

describe("what is refused, and fast", () => {
  const deep = `${"(".repeat(3_000)}1${")".repeat(3_000)}`;
  const bomb = `{__name__=~"((((a{100}){100}){100}){100})"}`;
  const many = Array.from({ length: 21 }, () => "millrace_connections").join(" + ");
  test.each([
    ["a long query", { query: "1+".repeat(6_000) }, 400, /more than 10000 characters/],
    ["a deep query", { query: deep }, 400, /nested too deep: more than 100/],
    [
      "a query less deep",
      { query: `${"(".repeat(101)}1${")".repeat(101)}` },
      400,
      /nested too deep/,
    ],
    ["signs without end", { query: `${"-".repeat(9_000)}a` }, 400, /nested too deep/],
    ["a large regular expression", { query: bomb }, 400, /1:2: parse error/],
    ["a long regular expression", { query: `{a=~"${"a".repeat(3_000)}"}` }, 400, /at most 2000/],
    ["a look-ahead", { query: `{a=~"(?=a)b"}` }, 400, /parse error/],
    ["many selectors", { query: many }, 400, /at most 20 selectors/],
    [
      "a subquery",
      { query: "max_over_time(rate(x[1m])[1h:1m])" },
      400,
      /subqueries are not supported/,
    ],
    [
      "a function that is not there",
      { query: "sum(absent(x))" },
      400,
      /1:5: .*function absent is not supported/,
    ],
    ["a mistake", { query: "sum(" }, 400, /parse error/],
    ["nothing", {}, 400, /no expression/],
    ["no time", { query: "1", time: "yesterday" }, 400, /"time"/],
    ["a time out of range", { query: "1", time: "999999999999999" }, 400, /out of range/],
    ["a huge offset", { query: "millrace_connections offset 99999999y" }, 400, /too large/],
    [
      "two metrics in one",
      { query: 'rate({__name__=~"millrace_topic.*"}[5m])' },
      422,
      /same labelset/,
    ],
  ])("%s", async (_, parameters, status, message) => {
    const begun = performance.now();
    const all: Record<string, string> = { time: seconds(END_MS), ...parameters };
    const { status: found, body } = await post("query", all);
    expect(performance.now() - begun).toBeLessThan(2_000);
    expect([found, body.status]).toEqual([status, "error"]);
    expect(body.error).toMatch(message);
  });

  test("a pattern that would take a backtracking engine for ever is answered", async () => {
    const begun = performance.now();
    const query = `millrace_connections{cluster=~"(q|qu|que|.)*(.*.*.*.*)*(([a-z]+)+)+!"}`;
    expect((await post("query", { query })).body.data.result).toEqual([]);
    expect(performance.now() - begun).toBeLessThan(2_000);
  });

  test("too many points, a step of nothing, an end before the start", async () => {
    const range = (start: number, end: number, step: string) =>
      get("query_range", { query: "1", start: `${start}`, end: `${end}`, step });
    expect((await range(0, 1e9, "1")).body.error).toMatch(/11,000 points/);
    expect((await range(0, 1e9, "0")).body.errorType).toBe("bad_data");
    expect((await range(10, 0, "1")).body.errorType).toBe("bad_data");
    expect((await range(0, 1, "x")).body.error).toMatch(/"step"/);
    expect((await range(0, 11_000, "1")).body.data.result[0].values).toHaveLength(11_001);
    const whole = { query: "rate(millrace_connections[400d])", start: "0", end: seconds(END_MS) };
    const begun = performance.now();
    expect((await get("query_range", { ...whole, step: "7d" })).status).toBe(200);
    expect(performance.now() - begun).toBeLessThan(5_000);
  });

  test("a body that is no form", async () => {
    const { status, body } = await call(fixture.app, "POST", `${base}/query`, {
      apiKey: fixture.ours.apiKey,
      body: { query: "1" },
    });
    expect([status, body.code]).toEqual([400, "validation_failed"]);
  });
});
