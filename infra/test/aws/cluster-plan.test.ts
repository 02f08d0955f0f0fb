/**
 * The cluster's stack before the real provider: it is valid, it plans without an account, and no
 * change that is allowed replaces a volume, a bucket or a key.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type ClusterStackSpec,
  checkPolicies,
  forbiddenChanges,
  synthesizeCluster,
} from "../../src/index.ts";
import { OFFLINE, SPEC } from "../stack-fixture.ts";
import { HAS_TERRAFORM, type PlanDocument, TerraformFolder } from "./terraform-folder.ts";

const KEY_ARN = `arn:aws:kms:${SPEC.region}:${SPEC.accountId}:key/1`;
const HOLDS_DATA = ["aws_ebs_volume", "aws_kms_key", "aws_s3_bucket"];

function stackText(change: Partial<ClusterStackSpec> = {}): string {
  return synthesizeCluster({ ...SPEC, ...change }, OFFLINE);
}

/** What AWS would have decided of a resource that the first plan creates. */
function decided(type: string, address: string, after: Record<string, unknown>) {
  if (type === "aws_kms_key") return { id: "1", key_id: "1", arn: KEY_ARN };
  if (type === "aws_s3_bucket") return { id: after.bucket, arn: `arn:aws:s3:::${after.bucket}` };
  return { id: `vol-${address}`, kms_key_id: KEY_ARN };
}

/** A state in which everything that holds data exists, as the first plan wanted it. */
function stateOf(plan: PlanDocument) {
  const made = plan.resource_changes.filter(({ type }) => HOLDS_DATA.includes(type));
  return {
    version: 4,
    terraform_version: "1.11.0",
    serial: 1,
    lineage: "cluster-plan-test",
    outputs: {},
    resources: made.map(({ type, address, change }) => ({
      mode: "managed",
      type,
      name: address.slice(type.length + 1),
      provider: 'provider["registry.terraform.io/hashicorp/aws"]',
      instances: [
        {
          schema_version: 0,
          attributes: { ...change.after, ...decided(type, address, change.after ?? {}) },
          sensitive_attributes: [],
        },
      ],
    })),
  };
}

/** Address → actions of what holds data. */
function dataActions(plan: PlanDocument): Record<string, string> {
  const changes = plan.resource_changes.filter(({ type }) => HOLDS_DATA.includes(type));
  return Object.fromEntries(
    changes.map(({ address, change }) => [address, change.actions.join("+")]),
  );
}

describe.skipIf(!HAS_TERRAFORM)("cluster stack, planned by Terraform", () => {
  let folder: TerraformFolder;
  let first: PlanDocument;

  beforeAll(async () => {
    folder = await TerraformFolder.open(stackText());
    first = await folder.plan();
  });
  afterAll(() => folder?.close());

  test("is valid, in every mode and in a network of the tenant's", async () => {
    const existing = {
      ...SPEC.network,
      vpcId: "vpc-0123456789abcdef0",
      subnetIds: ["subnet-0a000000", "subnet-0b000000", "subnet-0c000000"],
    };
    const specs: Partial<ClusterStackSpec>[] = [
      { mode: "paused" },
      { mode: "retained" },
      { mode: "purge" },
      { network: existing, storage: { kmsKeyArn: KEY_ARN } },
      { slots: 9, size: "medium", wal: { ...SPEC.wal, type: "io2", throughputMibps: undefined } },
      { slots: 1, zones: SPEC.zones.slice(0, 1) },
      {},
    ];
    for (const spec of specs) {
      folder.write(stackText(spec));
      expect(await folder.expect("validate", "-no-color")).toContain("Success");
    }
  });

  test("plans 92 resources, all to create, and passes the policy", () => {
    const actions = first.resource_changes.map(({ change }) => change.actions.join("+"));
    expect(new Set(actions)).toEqual(new Set(["create"]));
    expect(actions).toHaveLength(92);
    expect(checkPolicies(first, { kind: "cluster" })).toEqual([]);
  });

  test("neither stack nor plan holds the token", async () => {
    const shown = await folder.expect("show", "-json", "plan.bin");
    const bytes = readFileSync(join(folder.path, "plan.bin")).toString("latin1");
    for (const text of [stackText(), shown, bytes])
      expect(text).not.toContain("a-token-that-must-stay-out");
  });

  const wal = (change: Partial<ClusterStackSpec["wal"]>) => ({ wal: { ...SPEC.wal, ...change } });
  const volumes = (actions: string, slots = 3) =>
    Array.from({ length: slots }, (_, slot) => [`aws_ebs_volume.wal-${slot}_volume`, actions]);

  test.each<[string, Partial<ClusterStackSpec>, "update" | "no-op"]>([
    ["nothing", {}, "no-op"],
    ["throughput", wal({ throughputMibps: 500 }), "update"],
    ["size and IOPS", wal({ sizeGib: 40, iops: 6000 }), "update"],
    ["type", wal({ type: "io2", iops: 4000, throughputMibps: undefined }), "update"],
    ["labels", { labels: { team: "payments", tier: "gold" } }, "update"],
    [
      "machines, broker, settings and reach",
      {
        size: "medium",
        artefact: { ...SPEC.artefact, key: "broker/next", sha256: "cd".repeat(32) },
        properties: {},
        network: { ...SPEC.network, access: "private", allowedPrincipals: [], allowedCidrs: [] },
      },
      "no-op",
    ],
    ["a pause", { mode: "paused" }, "no-op"],
    ["a deletion that keeps data", { mode: "retained" }, "no-op"],
  ])("a change of %s is in place", async (_, change, actions) => {
    expect(forbiddenChanges(SPEC, { ...SPEC, ...change })).toEqual([]);
    folder.writeState(stateOf(first));
    folder.write(stackText(change));
    const plan = await folder.plan();
    const found = dataActions(plan);
    expect(Object.fromEntries(volumes(actions))).toEqual(
      Object.fromEntries(Object.entries(found).filter(([at]) => at.startsWith("aws_ebs"))),
    );
    expect(Object.values(found).every((action) => ["no-op", "update"].includes(action))).toBe(true);
    expect(checkPolicies(plan, { kind: "cluster" })).toEqual([]);
  });

  test("three slots more leave the volumes that are there alone", async () => {
    folder.writeState(stateOf(first));
    folder.write(stackText({ slots: 6 }));
    const found = dataActions(await folder.plan());
    expect(found).toMatchObject({
      ...Object.fromEntries(volumes("no-op")),
      "aws_ebs_volume.wal-3_volume": "create",
      "aws_ebs_volume.wal-5_volume": "create",
    });
  });

  test.each<[string, Partial<ClusterStackSpec>]>([
    ["another zone", { zones: ["eu-central-1b", "eu-central-1a", "eu-central-1c"] }],
    ["another key", { storage: { kmsKeyArn: `${KEY_ARN}2` } }],
    ["a slot less", { slots: 2 }],
    ["a smaller volume", wal({ sizeGib: 10 })],
  ])("%s is refused, and Terraform would have refused or lost data", async (name, change) => {
    expect(forbiddenChanges(SPEC, { ...SPEC, ...change })).not.toEqual([]);
    folder.writeState(stateOf(first));
    folder.write(stackText(change));
    const { code, output } = await folder.run("plan", "-refresh=false", "-no-color");
    // EBS itself refuses to shrink, at apply; the others are stopped by what protects the data.
    if (name === "a smaller volume") return expect(code).toBe(0);
    expect(code).toBe(1);
    expect(output).toContain("Instance cannot be destroyed");
  });

  test("a purge may destroy what holds data, nothing else may", async () => {
    folder.writeState(stateOf(first));
    folder.write(stackText({ mode: "retained" }));
    const refused = await folder.run("plan", "-destroy", "-refresh=false", "-no-color");
    expect(refused.code).toBe(1);
    expect(refused.output).toContain("Instance cannot be destroyed");
    folder.write(stackText({ mode: "purge" }));
    await folder.expect("plan", "-destroy", "-refresh=false", "-no-color");
  });
});
