import { bootstrapServers, type Cluster, type OperationId } from "@millrace/domain";
import { beforeEach, describe, expect, test } from "vitest";
import { apiFixture, call, keyOfRole, runningCluster } from "./fixture.ts";

const MIB = 1024 ** 2;
const fixture = apiFixture();
let cluster: Cluster;
let names = 0;

beforeEach(async () => {
  const { db, ours } = fixture;
  names += 1;
  cluster = (await runningCluster(db, ours, `bench-${names}`)).cluster;
  const page = await db.operations.list(ours.organization.id, { limit: 200 });
  // One benchmark runs at a time: what the last test left would refuse this one's.
  for (const { id, done } of page.items) if (!done) await db.operations.requestCancel(id);
});

function ask(method: string, path = "", body?: object, apiKey = fixture.ours.apiKey) {
  const url = `/v1/clusters/${cluster.id}/benchmarks${path}`;
  return call(fixture.app, method, url, { apiKey, ...(body && { body }) });
}

/** As a worker would: a second of load, then the report. */
async function measure(operationId: OperationId): Promise<void> {
  const { db } = fixture;
  const { id } = (await db.benchmarks.ofOperation(operationId))!;
  const latencyMs = { p50: 1, p95: 2, p99: 3, p999: 4, max: 5 };
  const rates = { recordsPerSecond: 1_024, bytesPerSecond: MIB };
  const produced = { records: 1_024, bytes: MIB, ...rates, errors: 0, latencyMs };
  const none = { consumed: undefined, lagRecords: undefined };
  await db.benchmarks.addSample(id, 0, { elapsedSeconds: 1, phase: "test", produced, ...none });
  await db.journal.claim(operationId, "test", 60_000);
  await db.benchmarks.saveReport(id, {
    report: {
      ...{ durationSeconds: 8, produced, consumed: undefined, endToEndLatencyMs: undefined },
      ...{ catchUp: undefined, unsentRecords: 0 },
    },
    tuningVersion: 0,
  });
  await db.journal.complete({ operationId, attempt: 1 }, { phase: "SUCCEEDED" });
}

test("a benchmark answers 202 with its operation, then its samples and its report", async () => {
  const started = await ask("POST", "", { duration_seconds: 10, bytes_per_second: MIB });
  expect(started.status).toBe(202);
  expect(started.headers.get("location")).toBe(`/v1/operations/${started.body.id}`);
  expect(started.body).toMatchObject({ kind: "cluster.benchmark", phase: "PENDING" });
  const { status } = await call(fixture.app, "GET", started.body.result.resource, {
    apiKey: fixture.ours.apiKey,
  });
  expect(status).toBe(200);
  const steps = started.body.steps.map(({ name }: { name: string }) => name);
  expect(steps).toEqual([
    ...["check_load", "create_benchmark_topic", "run_load", "delete_benchmark_topic"],
  ]);
  const [listed] = (await ask("GET")).body.items;
  expect(listed).toMatchObject({
    ...{ operation_id: started.body.id, phase: "PENDING", report: null, workload: "produce" },
    ...{ duration_seconds: 10, record_size_bytes: 1_024, bytes_per_second: MIB, partitions: 4 },
    ...{ size: "dev", created_by: { kind: "api_key" } },
    tuning: { version: 0, changes: [], values: { block_cache_bytes: 128 * MIB } },
  });
  expect(listed.samples).toBeUndefined();
  await measure(started.body.id);
  const { body } = await ask("GET", `/${listed.id}`);
  const latency_ms = { p50: 1, p95: 2, p99: 3, p999: 4, max: 5 };
  const flow = { records: 1_024, bytes: MIB, records_per_second: 1_024, bytes_per_second: MIB };
  expect(body).toMatchObject({
    ...{ id: listed.id, phase: "SUCCEEDED", error: null },
    report: {
      ...{ duration_seconds: 8, produced: { ...flow, errors: 0, latency_ms }, consumed: null },
      ...{ end_to_end_latency_ms: null, catch_up: null, unsent_records: 0, kept_up: true },
    },
    samples: [{ elapsed_seconds: 1, phase: "test", consumed: null, lag_records: null }],
  });
  const operation = await call(fixture.app, "GET", `/v1/operations/${started.body.id}`, {
    apiKey: fixture.ours.apiKey,
  });
  const resource = `/v1/clusters/${cluster.id}/benchmarks/${listed.id}`;
  expect(operation.body.result).toEqual({ resource });
  const me = await call(fixture.app, "GET", `/v1/clusters/${cluster.id}`, {
    apiKey: fixture.ours.apiKey,
  });
  // It changed nothing of the cluster, whose last operation is still the one that made it.
  expect(me.body.status.operation_id).not.toBe(started.body.id);
});

test("pages go from the newest to the oldest", async () => {
  for (let n = 0; n < 3; n += 1) {
    const { body } = await ask("POST", "", { duration_seconds: 10 + n });
    await measure(body.id);
  }
  const first = (await ask("GET", "?page_size=2")).body;
  expect(first.items.map((item: { duration_seconds: number }) => item.duration_seconds)).toEqual([
    12, 11,
  ]);
  const rest = (await ask("GET", `?page_size=2&page_token=${first.next_page_token}`)).body;
  expect(rest.items).toHaveLength(1);
  expect(rest.next_page_token).toBeUndefined();
});

describe("refused", () => {
  test.each([
    [{ duration_seconds: 9 }, "/duration_seconds"],
    [{ duration_seconds: 301 }, "/duration_seconds"],
    [{ record_size_bytes: 0 }, "/record_size_bytes"],
    [{ record_size_bytes: 1_048_577 }, "/record_size_bytes"],
    [{ partitions: 65 }, "/partitions"],
    [{ bytes_per_second: 0 }, "/bytes_per_second"],
    [{ workload: "consume" }, "/workload"],
    [{ topic: "orders" }, "/topic"],
  ])("%j is no benchmark", async (body, pointer) => {
    const answer = await ask("POST", "", body);
    expect(answer.status).toBe(400);
    expect(answer.body.errors[0].pointer).toBe(pointer);
  });

  test("a rate beyond the size names the bound", async () => {
    const { status, body } = await ask("POST", "", { bytes_per_second: 65 * MIB });
    expect([status, body.code]).toEqual([422, "limit_exceeded"]);
    expect(body.errors[0]).toMatchObject({ pointer: "/bytes_per_second" });
    expect(body.errors[0].message).toContain(`at most ${64 * MIB}`);
  });

  test("while the log is more than half full", async () => {
    const idle = {
      ...{ walCapacityBytes: 100, walSecondsLeft: 60 },
      ...{ uploadPendingBytes: 0, uploadsWaitFor: undefined },
    };
    const address = bootstrapServers(cluster) ?? "";
    fixture.kafka.storages.set(address, { ...idle, walUsedBytes: 51 });
    const { status, body, headers } = await ask("POST", "", {});
    expect([status, body.code]).toEqual([409, "benchmark_refused"]);
    expect(body.detail).toContain("51 % full");
    expect(headers.get("retry-after")).toBe("30");
    expect((await ask("GET")).body.items).toEqual([]);
  });

  test("while the broker does not answer", async () => {
    fixture.kafka.down.add(bootstrapServers(cluster) ?? "");
    expect((await ask("POST", "", {})).body.code).toBe("broker_unavailable");
  });

  test("to a viewer, who may read", async () => {
    const viewer = await keyOfRole(fixture.db, fixture.ours, "viewer");
    expect((await ask("POST", "", {}, viewer)).status).toBe(403);
    expect((await ask("GET", "", undefined, viewer)).status).toBe(200);
    const member = await keyOfRole(fixture.db, fixture.ours, "developer");
    expect((await ask("POST", "", {}, member)).status).toBe(202);
  });
});

test("an id of another cluster's benchmark is not found", async () => {
  const { body } = await ask("POST", "", {});
  const { id } = (await fixture.db.benchmarks.ofOperation(body.id))!;
  await measure(body.id);
  cluster = (await runningCluster(fixture.db, fixture.ours, `other-${names}`)).cluster;
  expect((await ask("GET", `/${id}`)).status).toBe(404);
  expect((await ask("GET", "/bmk_unknown")).status).toBe(404);
});
