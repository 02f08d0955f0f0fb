import { ProvisionError } from "@millrace/provisioner";
import { expect, test } from "vitest";
import { apiFixture, call, runningCluster } from "./fixture.ts";

const fixture = apiFixture();

function ask(method: string, path: string, body?: unknown) {
  const { apiKey } = fixture.ours;
  return call(fixture.app, method, path, { apiKey, ...(body !== undefined && { body }) });
}

const PATH = "/v1/clusters?validate_only=true";

test("a cluster on AWS is planned with its cost, without an account, and nothing is made", async () => {
  const body = { name: "orders", region: "us-east-1", size: "small", brokers: 3 };
  const preview = await ask("POST", PATH, body);
  expect(preview.status).toBe(200);
  expect(preview.headers.get("location")).toBeNull();
  expect(preview.body).toMatchObject({
    plan: { summary: { create: 3 }, digest: expect.stringMatching(/^[0-9a-f]{64}$/) },
    cost: { currency: "USD", total: expect.any(Number) },
    policy: [],
  });
  expect(preview.body.plan.id).toBeUndefined();
  expect(preview.body.cost_delta).toBe(preview.body.cost.total);
  expect(preview.body.warnings.join(" ")).toContain("zone of brokers 1, 2, 3.");
  const again = await ask("POST", PATH, body);
  expect(again.body.plan.digest).toBe(preview.body.plan.digest);
  expect((await ask("GET", "/v1/clusters")).body.items).toEqual([]);
});

test("what cannot be planned at all is refused, and said how", async () => {
  await runningCluster(fixture.db, fixture.ours, "taken");
  const taken = await ask("POST", PATH, { name: "taken" });
  expect(taken.status).toBe(409);
  expect(taken.body).toMatchObject({ code: "cluster_name_taken" });
  expect(taken.body.existing_id).toMatch(/^clu_/);
  fixture.planner.failure = new ProvisionError("plan_failed", "Terraform said no");
  const failed = await ask("POST", PATH, { name: "orders", region: "us-east-1" });
  fixture.planner.failure = undefined;
  expect(failed.status).toBe(502);
  expect(failed.body).toMatchObject({ code: "planning_failed", retryable: true });
});

test("a rename on this machine is previewed, and a taken name refused before it is applied", async () => {
  const { cluster } = await runningCluster(fixture.db, fixture.ours, "renamed");
  await runningCluster(fixture.db, fixture.ours, "occupied");
  const path = `/v1/clusters/${cluster.id}?validate_only=true`;
  const preview = await ask("PATCH", path, { name: "ledger", labels: { team: "payments" } });
  expect(preview.body.spec_changes).toEqual([
    { field: "name", before: "renamed", after: "ledger" },
    { field: "labels.team", before: null, after: "payments" },
  ]);
  const taken = await ask("PATCH", path, { name: "occupied" });
  expect(taken.status).toBe(409);
  expect(taken.body).toMatchObject({
    code: "cluster_name_taken",
    detail: 'A cluster named "occupied" already exists here.',
    errors: [{ pointer: "/name" }],
  });
});

test("without an account a cluster on AWS is not made, only planned", async () => {
  const body = { name: "orders", region: "eu-west-1", size: "small" };
  const refused = await ask("POST", "/v1/clusters", body);
  expect(refused.status).toBe(422);
  expect(refused.body).toMatchObject({
    code: "region_unavailable",
    errors: [{ pointer: "/region" }],
  });
  expect(refused.body.remedy).toContain("MILLRACE_AWS_ROLE_ARN");
});

/** One that runs on AWS, as far as its row tells. */
async function awsCluster(name: string, brokers = 1) {
  const { db, ours } = fixture;
  const aws = {
    wal: { type: "gp3", sizeGib: 20, iops: 3000, throughputMibps: 125 },
    network: {
      vpcId: undefined,
      subnetIds: [],
      cidr: "10.40.0.0/16",
      access: "private",
      allowedPrincipals: [],
      allowedCidrs: [],
    },
    storage: { kmsKeyArn: undefined },
  } as const;
  const cluster = await db.clusters.create({
    organizationId: ours.organization.id,
    environmentId: ours.environment.id,
    name,
    region: "us-east-1",
    size: "small",
    labels: {},
    conditions: [],
    zones: 3,
    brokers,
    aws,
  });
  await db.clusters.changePhase(cluster.id, { to: "RUNNING", observed: true });
  return cluster;
}

test("several brokers on AWS change in number, and their volumes keep type and size", async () => {
  const cluster = await awsCluster("several", 3);
  const path = `/v1/clusters/${cluster.id}`;
  const more = await ask("PATCH", `${path}?validate_only=true`, { brokers: 5 });
  expect(more.status).toBe(200);
  expect(more.body.cost_delta).toBeGreaterThan(0);
  expect(more.body.warnings.join()).toContain("No other broker is in the zone of broker 3.");
  const refused: [object, string][] = [
    [{ brokers: 1 }, "/brokers"],
    [{ wal: { type: "io2", iops: 3000 } }, "/wal/type"],
    [{ wal: { size_gib: 40 } }, "/wal/size_gib"],
  ];
  for (const [body, pointer] of refused) {
    const { status, body: answer } = await ask("PATCH", path, body);
    expect([status, answer.errors[0].pointer]).toEqual([400, pointer]);
  }
  const fewer = await ask("PATCH", path, { brokers: 2 });
  expect([fewer.status, fewer.body.spec.brokers]).toEqual([202, 2]);
});

test("a change shows what differs from now, in the stack and in money", async () => {
  const cluster = await awsCluster("cloudy");
  const path = `/v1/clusters/${cluster.id}`;
  const wal = { throughput_mibps: 250 };
  const preview = await ask("PATCH", `${path}?validate_only=true`, { wal });
  expect(preview.status).toBe(200);
  const attributes = [{ name: "throughput", before: "125", after: "250" }];
  expect(preview.body.plan.changes).toEqual([
    { address: "slot", type: "aws_launch_template", action: "update", attributes },
    { address: "wal", type: "volume", action: "update", attributes },
  ]);
  expect(preview.body.warnings[0]).toContain("down for some minutes");
  expect(preview.body.cost_delta).toBe(5); // 125 MiB/s × 0.04
  expect(preview.body.warnings.join(" ")).toContain("m7g.large sustains");
  const shrunk = await ask("PATCH", `${path}?validate_only=true`, { wal: { size_gib: 10 } });
  expect(shrunk.status).toBe(400);
  expect(shrunk.body.errors[0]).toMatchObject({ pointer: "/wal/size_gib", code: "cannot_shrink" });
  const kept = await ask("DELETE", `${path}?validate_only=true`);
  expect(kept.body.plan.summary).toMatchObject({ create: 0, delete: 2 });
  expect(kept.body.cost_delta).toBeLessThan(0);
  expect(kept.body.warnings[0]).toContain("kept until");
  const purged = await ask("DELETE", `${path}?validate_only=true&retain_days=0`);
  expect(purged.body.plan.summary).toMatchObject({ create: 0, delete: 3 });
  expect(purged.body.cost.total).toBe(0);
  const got = (await ask("GET", path)).body;
  expect(got.spec.wal).toMatchObject({ size_gib: 20, throughput_mibps: 125 });
  expect(got.status.phase).toBe("RUNNING");
  const changed = await ask("PATCH", path, { wal, labels: { team: "a" } });
  expect(changed.status).toBe(202);
  expect(changed.body.spec.wal.throughput_mibps).toBe(250);
  expect(changed.body.status.estimated_monthly_cost_usd).toBeGreaterThan(
    got.status.estimated_monthly_cost_usd,
  );
});

test("a cluster on this machine is planned as it is", async () => {
  const { cluster } = await runningCluster(fixture.db, fixture.ours, "near");
  const path = `/v1/clusters/${cluster.id}?validate_only=true`;
  const preview = await ask("PATCH", path, { size: "small" });
  expect(preview.body).toMatchObject({ cost: { total: 0 }, cost_delta: 0 });
  expect(preview.body.warnings).toEqual([
    expect.stringContaining("The broker will restart"),
    "The write-ahead log keeps its 256 MiB.",
  ]);
  expect(fixture.planner.asked.at(-1)).toEqual({ clusterId: cluster.id, purpose: "apply" });
  expect((await ask("PATCH", path, { wal: { size_gib: 20 } })).body.errors[0].pointer).toBe("/wal");
});

test("who changes a cluster that drifts, or whose drift was accepted, learns that it is undone", async () => {
  const { cluster } = await runningCluster(fixture.db, fixture.ours, "drifting");
  const path = `/v1/clusters/${cluster.id}?validate_only=true`;
  const warnings = async () =>
    (await ask("PATCH", path, { size: "small" })).body.warnings.join(" ") as string;
  expect(await warnings()).not.toContain("undoes");
  const drift = { checkedAt: new Date(), digest: "a".repeat(64), operationId: undefined };
  await fixture.db.clusters.recordDrift(cluster.id, { ...drift, status: "drifted" });
  expect(await warnings()).toContain("This change also undoes drift.");
  await fixture.db.clusters.recordDrift(cluster.id, { ...drift, status: "accepted" });
  expect(await warnings()).toContain("undoes accepted drift");
});

test("a preview that takes several plans waits for its turn once", async () => {
  const two = [await awsCluster("first-asked"), await awsCluster("second-asked")];
  fixture.planner.asked.length = 0;
  const answers = await Promise.all(
    two.map(({ id }) =>
      ask("PATCH", `/v1/clusters/${id}?validate_only=true`, { wal: { throughput_mibps: 250 } }),
    ),
  );
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  const [a, b, c, d] = fixture.planner.asked.map(({ clusterId }) => clusterId);
  expect([a === b, c === d, b === c]).toEqual([true, true, false]);
});
