import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { regionDrivers } from "../../src/region-drivers.ts";
import { apiFixture, call } from "../fixture.ts";

const bin = process.env.MILLRACE_TERRAFORM_BIN;
const mirror = process.env.MILLRACE_TERRAFORM_MIRROR;
const home = mkdtempSync(join(tmpdir(), "millrace-api-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));
/** Two plans of a minute at most, each of which may be tried twice, and some time for the rest. */
const TWO_PLANS_MS = 300_000;

/** Terraform and its AWS provider; no account, no credentials, no network. */
describe.skipIf(!bin || !mirror)("a preview by the real Terraform", () => {
  const fixture = apiFixture({
    drivers: regionDrivers({
      MILLRACE_BROKER_BIN: "/nonexistent/millrace",
      MILLRACE_HOME: home,
      MILLRACE_TERRAFORM_BIN: bin ?? "",
      MILLRACE_TERRAFORM_MIRROR: mirror,
      MILLRACE_AWS_PROVIDER_VERSION: undefined,
      MILLRACE_AWS_ROLE_ARN: undefined,
      MILLRACE_AWS_REGION: undefined,
      MILLRACE_LOCAL_CLUSTERS: "1",
      GOGC: process.env.GOGC,
      PATH: process.env.PATH ?? "",
      HOME: home,
    }),
  });
  /** Tries twice, as clients should: on a busy machine Terraform may exceed the limit of a minute for a plan. */
  const ask = async (method: string, path: string, body?: unknown) => {
    const options = { apiKey: fixture.ours.apiKey, ...(body ? { body } : {}) };
    const answer = await call(fixture.app, method, path, options);
    if (answer.body.code !== "planning_timed_out") return answer;
    console.warn(`${method} ${path}: planning timed out, trying again`);
    return call(fixture.app, method, path, options);
  };

  test("of three brokers in three zones: the plan, its cost, what the policy says", async () => {
    const network = { access: "private", allowed_cidrs: ["10.8.0.0/16"] };
    const body = { name: "orders", region: "eu-central-1", size: "small", brokers: 3, network };
    const { status, body: preview } = await ask("POST", "/v1/clusters?validate_only=true", body);
    expect(status).toBe(200);
    const types: string[] = preview.plan.changes.map((change: { type: string }) => change.type);
    const count = (type: string) => types.filter((each) => each === type).length;
    expect(count("aws_ebs_volume")).toBe(3);
    expect(count("aws_autoscaling_group")).toBe(3);
    expect(count("aws_s3_bucket")).toBe(1);
    expect(count("aws_db_instance")).toBe(1);
    expect(preview.warnings.join()).toContain("No other broker is in the zone of brokers 1, 2, 3.");
    expect(count("aws_subnet")).toBeGreaterThanOrEqual(3);
    expect(preview.plan.summary).toMatchObject({ update: 0, replace: 0, delete: 0 });
    expect(preview.plan.summary.create).toBe(preview.plan.changes.length);
    // The text ends at its bound; the changes are all there.
    expect(JSON.stringify(preview.plan.changes)).toContain("10.8.0.0/16");
    const errors = preview.policy.filter((each: { severity: string }) => each.severity === "error");
    expect(errors).toEqual([]);
    expect(preview.cost.total).toBeGreaterThan(200);
    expect(JSON.stringify(preview)).not.toContain('admin_token":"');
  });

  test("of a faster volume: it changes where it is, and nothing is replaced", {
    timeout: TWO_PLANS_MS,
  }, async () => {
    const { db, ours } = fixture;
    const wal = { type: "gp3", sizeGib: 20, iops: 3000, throughputMibps: 125 } as const;
    const cluster = await db.clusters.create({
      organizationId: ours.organization.id,
      environmentId: ours.environment.id,
      name: "cloudy",
      region: "eu-central-1",
      size: "small",
      labels: {},
      conditions: [],
      zones: 3,
      aws: {
        wal,
        network: {
          vpcId: undefined,
          subnetIds: [],
          cidr: "10.40.0.0/16",
          access: "private",
          allowedPrincipals: [],
          allowedCidrs: [],
        },
        storage: { kmsKeyArn: undefined },
      },
    });
    // One that has served: what never did holds nothing to keep.
    await db.transaction((tx) =>
      tx.clusters.changePhase(cluster.id, { to: "RUNNING", observed: true, conditions: [] }),
    );
    const path = `/v1/clusters/${cluster.id}?validate_only=true`;
    const { body } = await ask("PATCH", path, { wal: { throughput_mibps: 250 } });
    expect(body).toMatchObject({ plan: { summary: { create: 0, replace: 0, delete: 0 } } });
    const volume = body.plan.changes.find(
      (change: { type: string }) => change.type === "aws_ebs_volume",
    );
    expect(volume).toMatchObject({
      action: "update",
      attributes: [{ name: "throughput", before: "125", after: "250" }],
    });
    const kept = await ask("DELETE", path);
    const gone: string[] = kept.body.plan.changes
      .filter((change: { action: string }) => change.action === "delete")
      .map((change: { type: string }) => change.type);
    expect(gone).toContain("aws_autoscaling_group");
    expect(gone).not.toContain("aws_ebs_volume");
    expect(gone).not.toContain("aws_s3_bucket");
  });
});
