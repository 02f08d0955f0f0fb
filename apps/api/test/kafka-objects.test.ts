import { expect, test } from "vitest";
import { apiFixture, call, runningCluster } from "./fixture.ts";

const fixture = apiFixture();

test("topics are made, listed by name in pages, and deleted", async () => {
  const { app, db, ours } = fixture;
  const { apiKey } = ours;
  const { cluster } = await runningCluster(db, ours, "topics");
  const path = `/v1/clusters/${cluster.id}/topics`;
  for (const name of ["b", "a", "c"]) {
    const body = { name, partitions: 8, configs: {} };
    const made = await call(app, "POST", path, { apiKey, body });
    expect(made.status).toBe(201);
    expect(made.body).toMatchObject({ name, partitions: 8 });
  }
  const again = await call(app, "POST", path, { apiKey, body: { name: "a" } });
  expect(again.status).toBe(409);
  expect(again.body.code).toBe("topic_name_taken");

  const first = await call(app, "GET", `${path}?page_size=2`, { apiKey });
  const token = first.body.next_page_token;
  const rest = await call(app, "GET", `${path}?page_size=2&page_token=${token}`, { apiKey });
  const names = [...first.body.items, ...rest.body.items].map((topic) => topic.name);
  expect(names).toEqual(["a", "b", "c"]);
  expect(rest.body.next_page_token).toBeUndefined();

  expect((await call(app, "DELETE", `${path}/b`, { apiKey })).status).toBe(204);
  expect((await call(app, "DELETE", `${path}/b`, { apiKey })).status).toBe(404);
  const internal = await call(app, "DELETE", `${path}/__consumer_offsets`, { apiKey });
  expect(internal.status).toBe(404);
});

test("a topic that the broker creates after the timeout is answered with 201, not with 503", async () => {
  const { app, db, ours, kafka } = fixture;
  const { cluster } = await runningCluster(db, ours, "late-topics");
  kafka.lateTopics.set("wide", 300);
  const made = await call(app, "POST", `/v1/clusters/${cluster.id}/topics`, {
    apiKey: ours.apiKey,
    body: { name: "wide", partitions: 10_000 },
  });
  expect(made.status).toBe(201);
  expect(made.body).toMatchObject({ name: "wide", partitions: 10_000 });
});

test("99999 partitions are refused with their pointer, and nothing is created", async () => {
  const { app, db, ours } = fixture;
  const { apiKey } = ours;
  const { cluster } = await runningCluster(db, ours, "too-wide");
  const path = `/v1/clusters/${cluster.id}/topics`;
  const refused = await call(app, "POST", path, {
    apiKey,
    body: { name: "wide", partitions: 99_999 },
  });
  expect(refused.status).toBe(400);
  expect(refused.body.errors).toMatchObject([
    { pointer: "/partitions", message: "must be at most 10,000" },
  ]);
  expect((await call(app, "GET", path, { apiKey })).body.items).toEqual([]);
});

test("a topic is read, its settings change, its partitions grow and never shrink", async () => {
  const { app, db, ours } = fixture;
  const { apiKey } = ours;
  const { cluster } = await runningCluster(db, ours, "topic-changes");
  const topics = `/v1/clusters/${cluster.id}/topics`;
  const path = `${topics}/orders`;
  const body = {
    name: "orders",
    partitions: 3,
    configs: { "cleanup.policy": "compact", "retention.ms": null },
  };
  const made = await call(app, "POST", topics, { apiKey, body });
  expect(made.body.configs["cleanup.policy"]).toEqual({ value: "compact", source: "topic" });
  expect(made.body.configs["retention.ms"].source).toBe("default");
  expect((await call(app, "GET", path, { apiKey })).body).toEqual(made.body);
  const patch = (change: object, query = "") =>
    call(app, "PATCH", `${path}${query}`, { apiKey, body: change });

  const changed = await patch({ partitions: 6, configs: { "retention.ms": "1000" } });
  expect(changed.status).toBe(200);
  expect(changed.body).toMatchObject({
    partitions: 6,
    configs: {
      "retention.ms": { value: "1000", source: "topic" },
      "cleanup.policy": { value: "compact" },
    },
  });
  const reset = await patch({ configs: { "retention.ms": null } });
  expect(reset.body.configs["retention.ms"].source).toBe("default");
  const pinned = await patch({ configs: { "retention.ms": "604800000" } });
  expect(pinned.body.configs["retention.ms"].source).toBe("topic");
  const asked = await patch({ partitions: 9 }, "?validate_only=true");
  expect(asked.body.partitions).toBe(6);

  const fewer = await patch({ partitions: 2, configs: { "retention.ms": "5" } });
  expect(fewer.status).toBe(422);
  expect(fewer.body).toMatchObject({
    code: "partitions_decrease",
    errors: [{ pointer: "/partitions" }],
  });
  const wrong = await patch({ partitions: 9, configs: { "retention.ms": "soon" } });
  expect(wrong.status).toBe(400);
  expect(wrong.body.errors[0].pointer).toBe("/configs");
  expect((await call(app, "GET", path, { apiKey })).body).toEqual(pinned.body);
  for (const name of ["none", "__consumer_offsets"]) {
    expect((await call(app, "GET", `${topics}/${name}`, { apiKey })).status).toBe(404);
    const answer = await call(app, "PATCH", `${topics}/${name}`, { apiKey, body: {} });
    expect(answer.status).toBe(404);
  }
});

test("500 topics with their settings are one page and one request to the broker", async () => {
  const { app, db, kafka, ours } = fixture;
  const { apiKey } = ours;
  const { cluster } = await runningCluster(db, ours, "many-topics");
  const path = `/v1/clusters/${cluster.id}/topics`;
  for (let index = 0; index < 500; index += 1) {
    const name = `t${String(index).padStart(3, "0")}`;
    await call(app, "POST", path, { apiKey, body: { name } });
  }
  const before = kafka.configRequests;
  const page = await call(app, "GET", `${path}?page_size=1000&include=configs`, { apiKey });
  expect(page.body.items).toHaveLength(500);
  expect(page.body.next_page_token).toBeUndefined();
  const names = page.body.items.map((topic: { name: string }) => topic.name);
  expect(names).toEqual([...names].sort());
  expect(page.body.items[0].configs["retention.ms"].source).toBe("default");
  expect(kafka.configRequests - before).toBe(1);
  const plain = await call(app, "GET", `${path}?page_size=1000`, { apiKey });
  expect(plain.body.items[0].configs).toBeNull();
  expect(kafka.configRequests - before).toBe(1);
});

test("groups show their lag as decimal strings, past 2^53 too, and -1 where it is unknown", async () => {
  const { app, db, kafka, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "groups");
  const known = { topic: "t", memberId: "m", startOffset: 0n, outOfRange: false };
  const unknown = { startOffset: undefined, endOffset: undefined, lag: undefined };
  const huge = 2n ** 62n;
  kafka.groups.set(`127.0.0.1:${cluster.placement?.kafkaPort}`, [
    {
      groupId: "g/é",
      ...{ state: "Stable", protocolType: "consumer", members: 1, lag: huge + 3n },
      ...{ partitionCount: 4, offlinePartitionCount: 1, committedOffsetSum: 10n },
      partitions: [
        { ...known, partition: 0, committedOffset: undefined, endOffset: huge, lag: huge },
        { ...known, partition: 1, committedOffset: 5n, endOffset: 8n, lag: 3n },
        { ...known, partition: 2, committedOffset: 9n, endOffset: 8n, lag: 0n, outOfRange: true },
        { ...known, ...unknown, partition: 3, committedOffset: 5n },
      ],
    },
  ]);
  const path = `/v1/clusters/${cluster.id}/consumer-groups`;
  const { body } = await call(app, "GET", path, { apiKey: ours.apiKey });
  const expected = {
    ...{ group_id: "g/é", idle: false, total_lag: String(huge + 3n) },
    partitions: [
      { lag: String(huge), committed_offset: null, uncommitted: true, out_of_range: false },
      { lag: "3", start_offset: "0", uncommitted: false },
      { lag: "0", out_of_range: true },
      { start_offset: "-1", end_offset: "-1", lag: "-1" },
    ],
  };
  expect(body.items).toMatchObject([expected]);
  const one = await call(app, "GET", `${path}/g%2F%C3%A9`, { apiKey: ours.apiKey });
  expect(one).toMatchObject({ status: 200, body: { ...expected, assignor: "range" } });
  expect(one.body.partitions[0].member_id).toBe("m");
  const none = await call(app, "GET", `${path}/nobody`, { apiKey: ours.apiKey });
  expect(none).toMatchObject({ status: 404, body: { code: "not_found" } });
  expect(none.body.detail).toBe("There is no consumer group nobody.");
});

test("a broker that does not answer is 503 with a time to come back", async () => {
  const { app, db, kafka, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "silent");
  kafka.down.add(`127.0.0.1:${cluster.placement?.kafkaPort}`);
  const path = `/v1/clusters/${cluster.id}/topics`;
  const answer = await call(app, "GET", path, { apiKey: ours.apiKey });
  expect(answer.status).toBe(503);
  expect(answer.body).toMatchObject({ code: "broker_unavailable", retryable: true });
  expect(answer.headers.get("retry-after")).toMatch(/^\d+$/);
});

test("a cluster that is not up yet has no topics to ask for", async () => {
  const { app, ours } = fixture;
  const { apiKey } = ours;
  const made = await call(app, "POST", "/v1/clusters", { apiKey, body: { name: "early" } });
  const path = `/v1/clusters/${made.body.metadata.id}/topics`;
  const answer = await call(app, "GET", path, { apiKey });
  expect(answer.status).toBe(409);
  expect(answer.body.code).toBe("cluster_not_ready");
});

test("metrics come as the series that were asked for, on the step's grid", async () => {
  const { app, db, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "measured");
  // Of older times, readings two seconds apart are not kept.
  const t0 = Math.floor(Date.now() / 10_000) * 10_000 - 60_000;
  const brokers = [0, 2, 4, 6, 8, 10].map((second) => ({
    clusterId: cluster.id,
    brokerId: 0,
    at: new Date(t0 + second * 1_000),
    afterGap: false,
    bytesIn: BigInt(second * 1_000),
    bytesOut: 0n,
    recordsIn: 0n,
    produceBuckets: [BigInt(second), BigInt(second)],
    fetchBuckets: [0n, 0n],
    bucketBoundsUs: [4_000],
    connections: 2,
    cacheHits: 0n,
    cacheMisses: 0n,
    cacheFetchedBytes: 0n,
    cacheDeliveredBytes: 0n,
    networkWaitUs: 0n,
    tierBytes: [],
    tierWaitUs: [],
  }));
  await db.metrics.add([{ resolution: 2, brokers }]);
  const path = `/v1/clusters/${cluster.id}/metrics`;
  const range = `from=${new Date(t0).toISOString()}&to=${t0 + 10_000}`;
  const { status, body } = await call(app, "GET", `${path}?${range}&step=2`, {
    apiKey: ours.apiKey,
  });
  expect(status).toBe(200);
  const series = new Map<string, { unit: string; points: [number, number | null][] }>(
    body.series.map((each: { name: string }) => [each.name, each]),
  );
  for (const name of [
    "bytes_in_rate",
    "bytes_out_rate",
    "produce_latency_p50",
    "produce_latency_p99",
    "fetch_latency_p99",
    "consumer_lag",
  ]) {
    expect(series.has(name)).toBe(true);
  }
  const bytesIn = series.get("bytes_in_rate")?.points ?? [];
  expect(bytesIn.every(([time]) => time % 2_000 === 0)).toBe(true);
  expect(bytesIn.map(([, rate]) => rate)).toContain(1_000);
  const p99 = series.get("produce_latency_p99")?.points.map(([, value]) => value) ?? [];
  expect(Math.max(...p99.map((value) => value ?? 0))).toBeLessThanOrEqual(4);

  const tooMany = await call(app, "GET", `${path}?from=0&step=2`, { apiKey: ours.apiKey });
  expect(tooMany.status).toBe(400);
  const backwards = await call(app, "GET", `${path}?from=${t0}&to=${t0}`, { apiKey: ours.apiKey });
  expect(backwards.body.errors[0].pointer).toBe("/from");
});
