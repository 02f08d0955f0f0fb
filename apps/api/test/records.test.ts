import type { ServerResponse } from "node:http";
import { setUp } from "@millrace/testkit";
import { afterEach, expect, test } from "vitest";
import { apiFixture, call, keyOfRole, runningCluster } from "./fixture.ts";
import { json } from "./record-broker.ts";

const fixture = apiFixture();
const PAST_2_53 = "9007199254740993";
let path: string;
let clusterId: string;

setUp(async () => {
  const { cluster } = await runningCluster(fixture.db, fixture.ours, "records");
  clusterId = cluster.id;
  path = `/v1/clusters/${cluster.id}/topics/orders/records`;
});

afterEach(() => {
  fixture.records.asked.length = 0;
});

const RECORD = {
  partition: 3,
  offset: PAST_2_53,
  timestamp_ms: "1700000000000",
  timestamp_type: "create_time",
  key: { encoding: "text", data: "k", bytes: 1, truncated: false },
  value: { encoding: "base64", data: "/w==", bytes: 100_000, truncated: true },
  tombstone: false,
  headers: [
    { name: "h", value: null },
    { name: "", value: { encoding: "text", data: "", bytes: 0, truncated: false } },
  ],
  size_bytes: 100_001,
};
const PAGE = {
  records: [RECORD, { ...RECORD, key: null, value: null, tombstone: true }],
  cursor: "abc",
  end: false,
  scanned_records: 10,
  scanned_bytes: 1_000,
  partitions: [
    { partition: 3, earliest_offset: "0", end_offset: PAST_2_53, next_offset: PAST_2_53 },
  ],
};

function get(query: string, apiKey = fixture.ours.apiKey) {
  return call(fixture.app, "GET", `${path}?${query}`, { apiKey });
}

function post(body: unknown, headers: Record<string, string> = {}) {
  return call(fixture.app, "POST", path, { apiKey: fixture.ours.apiKey, body, headers });
}

test("records come through to the last digit, and the broker filters them", async () => {
  fixture.records.answer = (response) => json(response, 200, PAGE);
  const query =
    "partition=0,3&newest=7&key=k&header=h%3Dv&text=a&encoding=hex&limit=9&max_bytes=5&max_wait_ms=1&value_bytes_max=0";
  const answer = await get(query);
  expect(answer.status).toBe(200);
  expect(answer.body).toEqual(PAGE);
  expect(answer.headers.get("cache-control")).toBe("no-store");
  expect(fixture.records.asked).toEqual([
    {
      method: "GET",
      path: "/v1/topics/orders/records",
      query: Object.fromEntries(new URLSearchParams(query)),
      body: undefined,
    },
  ]);
});

test.each([
  ["newest=1&from=latest", "/from"],
  ["cursor=a&offset=1&partition=0", "/cursor"],
  ["offset=1", "/partition"],
  ["offset=1&partition=0,1", "/partition"],
  ["offset=-1&partition=0", "/offset"],
  ["newest=0", "/newest"],
  ["newest=1001", "/newest"],
  ["limit=1001", "/limit"],
  ["partition=a", "/partition"],
  ["partition=0,", "/partition"],
  ["time=yesterday", "/time"],
  ["from=middle", "/from"],
  ["max_bytes=8388609", "/max_bytes"],
  ["max_wait_ms=10001", "/max_wait_ms"],
  ["encoding=text", "/encoding"],
  ["text=", "/text"],
  ["max_wait_ms=0", "/max_wait_ms"],
])("a read with %s is refused at %s, before the broker is asked", async (query, pointer) => {
  for (const suffix of ["", "/stream"]) {
    const { apiKey } = fixture.ours;
    const answer = await call(fixture.app, "GET", `${path}${suffix}?${query}`, { apiKey });
    expect(answer.status).toBe(400);
    const pointers = answer.body.errors.map((error: { pointer: string }) => error.pointer);
    expect(pointers).toContain(pointer);
  }
  expect(fixture.records.asked).toEqual([]);
});

test("records are produced, each with its own result", async () => {
  const results = [
    { partition: 0, offset: PAST_2_53, timestamp_ms: "1700000000000" },
    { error: { code: "MESSAGE_TOO_LARGE", message: "too large" } },
  ];
  fixture.records.answer = (response) => json(response, 200, { results });
  const body = {
    records: [
      {
        partition: 0,
        key: { encoding: "hex", data: "00fF" },
        value: { encoding: "base64", data: "AAE=" },
        headers: [{ name: "h", value: null }],
        timestamp_ms: "1700000000000",
      },
      { key: null, value: { encoding: "text", data: "ä" } },
    ],
    partitioner: "sticky",
    compression: "zstd",
  };
  const answer = await post(body);
  expect(answer.status).toBe(200);
  expect(answer.body).toEqual({ results });
  expect(fixture.records.asked[0]).toMatchObject({ method: "POST", body });
});

test("a request that is repeated with its key writes nothing twice", async () => {
  const results = [{ partition: 0, offset: "1", timestamp_ms: "1" }];
  fixture.records.answer = (response) => json(response, 200, { results });
  const body = { records: [{ value: null }] };
  const first = await post(body, { "idempotency-key": "produce-once" });
  const second = await post(body, { "idempotency-key": "produce-once" });
  expect(second.body).toEqual(first.body);
  expect(fixture.records.asked).toHaveLength(1);
});

test.each<[string, (response: ServerResponse) => void]>([
  ["breaks the connection", (response) => response.destroy()],
  ["answers what cannot be read", (response) => response.end("{")],
])("a retry does not reach a broker that %s: it may have written", async (what, answer) => {
  fixture.records.answer = answer;
  const headers = { "idempotency-key": `unknown-${what}` };
  const body = { records: [{ value: null }] };
  const first = await post(body, headers);
  expect([first.status, first.body.code]).toEqual([504, "produce_outcome_unknown"]);
  expect(first.body.remedy).toContain("They may have been written.");
  fixture.records.answer = (response) => json(response, 200, { results: [] });
  const second = await post(body, headers);
  expect([second.status, second.body.code]).toEqual([504, "produce_outcome_unknown"]);
  expect(second.headers.get("idempotency-replayed")).toBe("true");
  expect(fixture.records.asked).toHaveLength(1);
});

const text = (data: string) => ({ encoding: "text", data });

test.each([
  [{ records: [] }, "/records"],
  [{ records: Array.from({ length: 1_001 }, () => ({})) }, "/records"],
  [{ records: [{ value: "plain" }] }, "/records/0/value"],
  [{ records: [{}, { value: { encoding: "base64", data: "AAE" } }] }, "/records/1/value/data"],
  [{ records: [{ value: { encoding: "base64", data: "AA=E" } }] }, "/records/0/value/data"],
  [{ records: [{ key: { encoding: "hex", data: "abc" } }] }, "/records/0/key/data"],
  [{ records: [{ key: { encoding: "hex", data: "0g" } }] }, "/records/0/key/data"],
  [{ records: [{ key: text("\ud800") }] }, "/records/0/key/data"],
  [{ records: [{ headers: [{ value: null }] }] }, "/records/0/headers/0/name"],
  [{ records: [{ partition: -1 }] }, "/records/0/partition"],
  [{ records: [{ timestamp_ms: "now" }] }, "/records/0/timestamp_ms"],
  [{ records: [{ vaule: null }] }, "/records/0/vaule"],
  [{ records: [{}], compression: "rar" }, "/compression"],
])("%j is refused at %s, and nothing is written", async (body, pointer) => {
  const answer = await post(body);
  expect(answer.status).toBe(400);
  expect(answer.body.errors[0].pointer).toBe(pointer);
  expect(fixture.records.asked).toEqual([]);
});

test("a body may have 8 MiB, and no more", async () => {
  const large = (mib: number) => ({ records: [{ value: text("x".repeat(mib * 1024 * 1024)) }] });
  fixture.records.answer = (response) =>
    json(response, 200, { results: [{ partition: 0, offset: "0", timestamp_ms: "0" }] });
  expect((await post(large(7))).status).toBe(200);
  const answer = await post(large(8));
  expect([answer.status, answer.body.code]).toEqual([413, "payload_too_large"]);
  const elsewhere = await call(fixture.app, "POST", "/v1/environments", {
    apiKey: fixture.ours.apiKey,
    body: { name: "x".repeat(2 * 1024 * 1024) },
  });
  expect(elsewhere.status).toBe(413);
});

test("an internal topic can be read, not written", async () => {
  const internal = `/v1/clusters/${clusterId}/topics/__consumer_offsets/records`;
  const { apiKey } = fixture.ours;
  fixture.records.answer = (response) => json(response, 200, PAGE);
  expect((await call(fixture.app, "GET", internal, { apiKey })).status).toBe(200);
  const body = { records: [{ value: null }] };
  const answer = await call(fixture.app, "POST", internal, { apiKey, body });
  expect([answer.status, answer.body.errors[0].pointer]).toEqual([400, "/topic_name"]);
  expect(fixture.records.asked).toHaveLength(1);
});

test.each([".", "a%2Fb", "a%20b"])("a topic named %s cannot exist", async (name) => {
  const url = `/v1/clusters/${clusterId}/topics/${name}/records`;
  const answer = await call(fixture.app, "GET", url, { apiKey: fixture.ours.apiKey });
  expect(answer.status).toBe(404);
  expect(fixture.records.asked).toEqual([]);
});

test.each([
  [400, "OFFSET_OUT_OF_RANGE", 400, "validation_failed"],
  [404, "UNKNOWN_TOPIC_OR_PARTITION", 404, "not_found"],
  [413, "MESSAGE_TOO_LARGE", 413, "payload_too_large"],
  [429, "TOO_MANY_READS", 429, "rate_limited"],
  [503, "NOT_READY", 503, "broker_unavailable"],
  [500, "UNKNOWN_SERVER_ERROR", 502, "broker_failed"],
])("a broker's %d %s is answered with %d %s", async (said, name, status, code) => {
  fixture.records.answer = (response) => {
    response.setHeader("retry-after", "5");
    json(response, said, { error: { code: name, message: "topic orders has no partition 9" } });
  };
  for (const suffix of ["", "/stream"]) {
    const { apiKey } = fixture.ours;
    const answer = await call(fixture.app, "GET", `${path}${suffix}`, { apiKey });
    expect([answer.status, answer.body.code]).toEqual([status, code]);
    if (status === 429) expect(answer.headers.get("retry-after")).toBe("5");
    if (status === 404) expect(answer.body.detail).toBe("topic orders has no partition 9.");
    if (status === 400) expect(answer.body.errors[0].pointer).toBe("/offset");
  }
});

test.each([
  [...[404, "UNKNOWN_TOPIC_OR_PARTITION", 'there is no topic "nope"'], 'There is no topic "nope".'],
  [
    ...[400, "OFFSET_OUT_OF_RANGE", "offset 9 does not exist: pay-0 has offsets 0 to 3"],
    "Invalid request: offset 9 does not exist: pay-0 has offsets 0 to 3.",
  ],
] as const)("a broker's %d %s is a sentence", async (status, code, message, detail) => {
  fixture.records.answer = (response) => json(response, status, { error: { code, message } });
  const { apiKey } = fixture.ours;
  const answer = await call(fixture.app, "GET", path, { apiKey });
  expect([answer.status, answer.body.detail]).toEqual([status, detail]);
});

test.each([
  ["offset=1", "partition is required with offset: offsets are counted per partition"],
  [
    "offset=1&partition=0,1",
    "partition must be a single one with offset: offsets are counted per partition",
  ],
])("%s says what is missing", async (query, sentence) => {
  const { apiKey } = fixture.ours;
  const answer = await call(fixture.app, "GET", `${path}?${query}`, { apiKey });
  expect(answer.body.detail).toBe(`Invalid request: ${sentence}.`);
});

test("who may see topics may not for that reason read what is in them", async () => {
  const viewer = await keyOfRole(fixture.db, fixture.ours, "viewer");
  const answer = await get("", viewer);
  expect([answer.status, answer.body.detail]).toEqual([
    403,
    "The role viewer does not grant record:read.",
  ]);
});
