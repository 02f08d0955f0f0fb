import { expect, test } from "vitest";
import { apiFixture, call, runningCluster } from "./fixture.ts";

const fixture = apiFixture();

function ask(method: string, path: string) {
  return call(fixture.app, method, path, { apiKey: fixture.ours.apiKey });
}

async function degraded(name: string) {
  const { cluster } = await runningCluster(fixture.db, fixture.ours, name);
  await fixture.db.clusters.changePhase(cluster.id, { to: "DEGRADED" });
  return cluster.id;
}

test("a recovery answers 202 with an operation that waits for the approval of its plan", async () => {
  const id = await degraded("lost");
  const { status, headers, body } = await ask("POST", `/v1/clusters/${id}/recover`);
  expect(status).toBe(202);
  expect(headers.get("location")).toBe(`/v1/operations/${body.id}`);
  expect(body).toMatchObject({ kind: "cluster.recover", require_approval: true });
  expect(body.steps.map(({ name }: { name: string }) => name)).toEqual([
    ...["plan", "approve", "recover", "start_broker"],
    ...["wait_until_healthy", "smoke_check", "publish_endpoint"],
  ]);
  const again = await ask("POST", `/v1/clusters/${id}/recover`);
  expect([again.status, again.body.code]).toEqual([409, "cluster_busy"]);
});

test("validate_only shows what comes back and what is missing, and begins nothing", async () => {
  const id = await degraded("previewed");
  const path = `/v1/clusters/${id}/recover?validate_only=true`;
  const { status, body } = await ask("POST", path);
  expect(status).toBe(200);
  expect(body.plan.recovery).toMatchObject({
    ...{ source: "bucket", recovered_to: "2026-11-22T10:00:00Z", missing_partitions: 1 },
    missing: [{ topic: "orders", partition: 0, from_offset: "10", to_offset: "12" }],
  });
  const cluster = await ask("GET", `/v1/clusters/${id}`);
  expect(cluster.body.status.phase).toBe("DEGRADED");
});

test("a cluster that serves is not recovered", async () => {
  const { cluster } = await runningCluster(fixture.db, fixture.ours, "serving");
  const { status, body } = await ask("POST", `/v1/clusters/${cluster.id}/recover`);
  expect([status, body.code, body.retryable]).toEqual([409, "cluster_serving", false]);
});
