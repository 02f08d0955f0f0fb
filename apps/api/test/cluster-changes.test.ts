import type { ClusterId } from "@millrace/domain";
import { expect, test } from "vitest";
import { apiFixture, call, runningCluster } from "./fixture.ts";

const fixture = apiFixture();

async function running(name: string) {
  const { cluster } = await runningCluster(fixture.db, fixture.ours, name);
  return { id: cluster.id, path: `/v1/clusters/${cluster.id}` };
}

function ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const { apiKey } = fixture.ours;
  return call(fixture.app, method, path, { apiKey, headers, ...(body !== undefined && { body }) });
}

/** Ends the operation at work on a cluster as a worker would. */
async function finish(id: ClusterId, operationId: string, phase: "SUCCEEDED" | "FAILED") {
  const { db } = fixture;
  const operation = operationId as `op_${string}`;
  const claimed = await db.journal.claim(operation, "test", 60_000);
  const fence = { operationId: operation, attempt: claimed?.attempt ?? 0 };
  const error = { code: "provisioning_failed", message: "no", step: undefined } as const;
  await db.journal.complete(fence, phase === "FAILED" ? { phase, error } : { phase });
  return (await db.clusters.load(id))!;
}

test("what is only in the row changes at once", async () => {
  const { path } = await running("row");
  const before = (await ask("GET", path)).body;
  const labels = { team: "a", tier: "gold" };
  const changed = await ask("PATCH", path, { labels, deletion_protection: true });
  expect(changed.status).toBe(200);
  expect(changed.body).toMatchObject({ metadata: { labels }, spec: { deletion_protection: true } });
  expect(changed.headers.get("etag")).toBe(changed.body.metadata.etag);
  expect(changed.body.metadata.etag).not.toBe(before.metadata.etag);
  const less = await ask("PATCH", path, { labels: { team: null } });
  expect(less.body.metadata.labels).toEqual({ tier: "gold" });
  const renamed = await ask("PATCH", path, { name: "row-2" });
  expect(renamed.body.spec.name).toBe("row-2");
  expect(renamed.body.status.phase).toBe("RUNNING");
});

test("a change to what is so already changes nothing", async () => {
  const { path } = await running("same");
  const before = (await ask("GET", path)).body;
  const { name, size, deletion_protection, paused } = before.spec;
  const same = await ask("PATCH", path, { name, size, deletion_protection, paused, labels: {} });
  expect(same.status).toBe(200);
  expect(same.body).toEqual(before);
});

test("a size takes an operation, and the cluster says so", async () => {
  const { path } = await running("grow");
  const changed = await ask("PATCH", path, { size: "small", require_approval: true });
  expect(changed.status).toBe(202);
  expect(changed.headers.get("location")).toBe(`/v1/operations/${changed.body.operation_id}`);
  expect(changed.body).toMatchObject({ spec: { size: "small" }, status: { phase: "UPDATING" } });
  const operation = await ask("GET", changed.headers.get("location") ?? "");
  expect(operation.body).toMatchObject({
    kind: "cluster.update",
    provider: "local",
    require_approval: true,
    approved_at: null,
  });
  const busy = await ask("PATCH", path, { size: "medium" });
  expect(busy.status).toBe(409);
  expect(busy.body).toMatchObject({ code: "cluster_busy", retryable: true });
  expect(busy.body.detail).toContain(operation.body.id);
  const meanwhile = await ask("PATCH", path, { deletion_protection: true });
  expect(meanwhile.status).toBe(200);
});

test("turning the plaintext listener off takes an operation, and leaves the secure endpoint", async () => {
  const { id, path } = await running("secure-only");
  await ask("PATCH", path, { plaintext_listener: true });
  const names = async () =>
    (await ask("GET", path)).body.status.endpoints.map(({ name }: { name: string }) => name);
  expect(await names()).toEqual(["kafka", "kafka-tls"]);
  const preview = await ask("PATCH", `${path}?validate_only=true`, { plaintext_listener: false });
  expect(preview.status).toBe(200);
  expect(preview.body.spec_changes).toEqual([
    { field: "plaintext_listener", before: "true", after: "false" },
  ]);
  expect(preview.body.warnings).toContain(
    "Clients that do not use TLS and a password can no longer connect.",
  );
  const changed = await ask("PATCH", path, { plaintext_listener: false });
  expect(changed.status).toBe(202);
  expect(changed.body).toMatchObject({
    spec: { plaintext_listener: false },
    status: { phase: "UPDATING" },
  });
  // Until the operation begins to change the broker, which may wait for approval, clients connect as before.
  expect(await names()).toEqual(["kafka", "kafka-tls"]);
  const list = (await ask("GET", "/v1/clusters")).body.items as (typeof changed.body)[];
  const listed = list.find(({ metadata }) => metadata.id === id);
  expect(listed.status.endpoints).toHaveLength(2);
  await finish(id, changed.body.operation_id, "SUCCEEDED");
  expect(await names()).toEqual(["kafka-tls"]);
});

test("a stale entity tag changes nothing", async () => {
  const { path } = await running("stale");
  const stale = { "if-match": '"0"' };
  expect((await ask("PATCH", path, { deletion_protection: true }, stale)).status).toBe(412);
  expect((await ask("POST", `${path}/pause`, undefined, stale)).status).toBe(412);
  const { etag } = (await ask("GET", path)).body.metadata;
  const headers = { "if-match": etag };
  expect((await ask("PATCH", path, { deletion_protection: true }, headers)).status).toBe(200);
});

test("a protected cluster is not deleted, until it is not protected", async () => {
  const { path } = await running("guarded");
  await ask("PATCH", path, { deletion_protection: true });
  const refused = await ask("DELETE", path);
  expect(refused.status).toBe(409);
  expect(refused.body).toMatchObject({ code: "deletion_protected", retryable: false });
  expect((await ask("GET", path)).body.status.phase).toBe("RUNNING");
  const warned = await ask("DELETE", `${path}?validate_only=true`);
  expect(warned.body.warnings[0]).toContain("Deletion protection is on");
  await ask("PATCH", path, { deletion_protection: false });
  expect((await ask("DELETE", path)).status).toBe(202);
});

test("paused and resumed, by a change of the spec or by name", async () => {
  const { id, path } = await running("rest");
  const paused = await ask("PATCH", path, { paused: true });
  expect(paused.status).toBe(202);
  expect(paused.body).toMatchObject({ spec: { paused: true }, status: { phase: "UPDATING" } });
  await finish(id, paused.body.operation_id, "SUCCEEDED");
  await fixture.db.clusters.changePhase(id, { to: "PAUSED" });
  expect((await ask("PATCH", path, { paused: true })).status).toBe(200);
  const twice = await ask("POST", `${path}/pause`);
  expect(twice.status).toBe(409);
  expect(twice.body.code).toBe("cluster_not_ready");
  const both = await ask("PATCH", path, { paused: false, size: "small" });
  expect(both.status).toBe(400);
  expect(both.body.errors[0].pointer).toBe("/paused");
  const topics = await ask("GET", `${path}/topics`);
  expect(topics.body.code).toBe("cluster_not_ready");
  const resumed = await ask("POST", `${path}/resume`);
  expect(resumed.status).toBe(202);
  expect(resumed.body.kind).toBe("cluster.resume");
  expect((await ask("GET", path)).body.spec.paused).toBe(false);
});

test("data that is kept can be had back; its name can be given away meanwhile", async () => {
  const { id, path } = await running("kept");
  const deleted = await ask("DELETE", `${path}?retain_days=3`);
  expect(deleted.status).toBe(202);
  await finish(id, deleted.body.id, "SUCCEEDED");
  await fixture.db.clusters.changePhase(id, { to: "PENDING_PURGE" });
  const kept = (await ask("GET", path)).body.status;
  expect(kept.phase).toBe("PENDING_PURGE");
  const days = (Date.parse(kept.purge_at) - Date.now()) / 86_400_000;
  expect(days).toBeGreaterThan(2.9);
  expect(days).toBeLessThanOrEqual(3);
  for (const answer of [
    await ask("PATCH", path, { deletion_protection: true }),
    await ask("GET", `${path}/topics`),
  ]) {
    expect(answer.body).toMatchObject({ code: "cluster_not_ready", retryable: false });
  }
  const successor = await running("kept");
  const refused = await ask("POST", `${path}/restore`);
  expect(refused.status).toBe(409);
  const other = successor.path.split("/").at(-1);
  expect(refused.body).toMatchObject({
    ...{ code: "cluster_name_taken", existing_id: other },
    remedy: `Rename or delete cluster ${other} first.`,
  });
  await ask("PATCH", successor.path, { name: "kept-2" });
  const restored = await ask("POST", `${path}/restore`);
  expect(restored.status).toBe(202);
  expect((await ask("GET", path)).body.status).toMatchObject({ phase: "UPDATING", purge_at: null });
});

test("the data of a deleted cluster goes only with an explicit 0, however often it is deleted", async () => {
  const { id, path } = await running("gone");
  const deleted = await ask("DELETE", `${path}?retain_days=3`);
  await finish(id, deleted.body.id, "SUCCEEDED");
  await fixture.db.clusters.changePhase(id, { to: "PENDING_PURGE" });
  for (const again of [path, `${path}?retain_days=3`]) {
    const answer = await ask("DELETE", again);
    expect(answer.status).toBe(202);
    expect(answer.body).toMatchObject({ id: deleted.body.id, kind: "cluster.delete" });
  }
  const purged = await ask("DELETE", `${path}?retain_days=0`);
  expect(purged.status).toBe(202);
  expect(purged.body.kind).toBe("cluster.purge");
});

test("an operation that failed is tried again by its own name", async () => {
  const { db, ours } = fixture;
  const made = await ask("POST", "/v1/clusters", { name: "failing" });
  const operationId = made.body.operation_id;
  const path = `/v1/operations/${operationId}`;
  const early = await ask("POST", `${path}/retry`);
  expect(early.status).toBe(409);
  expect(early.body.code).toBe("operation_not_retryable");
  const { id } = await finish(made.body.metadata.id, operationId, "FAILED");
  await db.clusters.changePhase(id, { to: "FAILED" });
  const failed = (await ask("GET", `/v1/clusters/${id}`)).body;
  expect(failed.status).toMatchObject({ phase: "FAILED", operation_id: operationId });
  const again = await ask("POST", "/v1/clusters", { name: "failing" });
  expect(again.status).toBe(409);
  expect(again.body).toMatchObject({ code: "cluster_name_taken", existing_id: id });
  const retried = await ask("POST", `${path}/retry`);
  expect(retried.status).toBe(202);
  expect(retried.headers.get("location")).toBe(path);
  expect(retried.body).toMatchObject({
    id: operationId,
    phase: "PENDING",
    done: false,
    error: null,
  });
  expect((await db.clusters.get(ours.organization.id, id))?.phase).toBe("PROVISIONING");
});

test("an operation that nobody works at is cancelled at once, and can go on", async () => {
  const { path } = await running("cancelled");
  const changed = await ask("PATCH", path, { size: "small" });
  const operation = `/v1/operations/${changed.body.operation_id}`;
  const cancelled = await ask("POST", `${operation}/cancel`);
  expect(cancelled.status).toBe(202);
  expect(cancelled.body).toMatchObject({ phase: "CANCELLED", done: true });
  expect(cancelled.body.cancel_requested_at).not.toBeNull();
  expect((await ask("GET", path)).body.status.phase).toBe("RUNNING");
  const again = await ask("POST", `${operation}/cancel`);
  expect(again.body.code).toBe("operation_not_cancellable");
  const retried = await ask("POST", `${operation}/retry`);
  expect(retried.body).toMatchObject({ phase: "PENDING", cancel_requested_at: null });
  expect((await ask("GET", path)).body.status.phase).toBe("UPDATING");
});

test("only what waits is approved, and only the plan that was looked at", async () => {
  const { db } = fixture;
  const { path } = await running("approved");
  const changed = await ask("PATCH", path, { size: "small", require_approval: true });
  const id = changed.body.operation_id;
  const operation = `/v1/operations/${id}`;
  const digest = "a".repeat(64);
  const early = await ask("POST", `${operation}/approve`, { digest });
  expect(early.body.code).toBe("approval_not_awaited");
  expect((await ask("GET", `${operation}/plan`)).status).toBe(404);
  const change = { address: "broker", type: "process", action: "update", attributes: [] };
  const plan = { id: "p", changes: [change], summary: {}, findings: [], diff: "d", digest };
  const summary = { create: 0, update: 1, replace: 0, delete: 0, import: 0 };
  const stored = { planId: "p", digest, plan: { ...plan, summary }, cost: null };
  await db.operationPlans.save(id, stored);
  await db.journal.claim(id, "test", 60_000);
  await db.journal.waitForApproval({ operationId: id, attempt: 1 }, "waits");
  const shown = await ask("GET", `${operation}/plan`);
  expect(shown.body).toMatchObject({ operation_id: id, plan: { digest, summary }, policy: [] });
  const other = await ask("POST", `${operation}/approve`, { digest: "b".repeat(64) });
  expect(other.status).toBe(409);
  expect(other.body.code).toBe("plan_changed");
  const approved = await ask("POST", `${operation}/approve`, { digest });
  expect(approved.status).toBe(202);
  expect(approved.body).toMatchObject({ phase: "PENDING", done: false });
  expect(approved.body.approved_at).not.toBeNull();
});

test("drift is shown, let stand by its digest, or undone", async () => {
  const { db } = fixture;
  const { id, path } = await running("drifting");
  expect((await ask("GET", `${path}/drift`)).body).toMatchObject({ status: "unknown", plan: null });
  const looked = await ask("POST", `${path}/check-drift`);
  expect(looked.status).toBe(202);
  expect((await ask("GET", path)).body.status.phase).toBe("RUNNING");
  const digest = "c".repeat(64);
  const operationId = looked.body.id;
  await finish(id, operationId, "SUCCEEDED");
  const summary = { create: 0, update: 1, replace: 0, delete: 0, import: 0 };
  const plan = { id: "d", changes: [], summary, findings: [], diff: "iops", digest };
  await db.operationPlans.save(operationId, { planId: "d", digest, plan, cost: null });
  await db.clusters.recordDrift(id, {
    status: "drifted",
    checkedAt: new Date(),
    digest,
    operationId,
  });
  expect((await ask("GET", path)).body.status.drift).toBe("drifted");
  expect((await ask("GET", `${path}/drift`)).body).toMatchObject({
    status: "drifted",
    digest,
    operation_id: operationId,
    plan: { diff: "iops" },
  });
  const other = await ask("POST", `${path}/accept-drift`, { digest: "d".repeat(64) });
  expect(other.body.code).toBe("plan_changed");
  const accepted = await ask("POST", `${path}/accept-drift`, { digest });
  expect(accepted.status).toBe(200);
  expect(accepted.body.status).toBe("accepted");
  const undone = await ask("POST", `${path}/reconcile`);
  expect(undone.body.kind).toBe("cluster.reconcile");
});

test("the README's first message can be run again: the name leads to the cluster and the operation of the first run", async () => {
  const create = { name: "first-message", region: "local", size: "dev" };
  const made = await ask("POST", "/v1/clusters", create);
  await finish(made.body.metadata.id, made.body.operation_id, "SUCCEEDED");
  const again = await ask("POST", "/v1/clusters", create);
  expect([again.status, again.body.existing_id]).toEqual([409, made.body.metadata.id]);
  const cluster = await ask("GET", `/v1/clusters/${again.body.existing_id}`);
  expect(cluster.body.status.operation_id).toBe(made.body.operation_id);
  const operation = await ask("GET", `/v1/operations/${made.body.operation_id}?wait=30s`);
  expect(operation.body.phase).toBe("SUCCEEDED");
});
