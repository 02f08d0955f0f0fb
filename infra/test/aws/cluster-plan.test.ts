/**
 * The cluster's stack before the real provider: it is valid, it plans without an account, and no
 * change that is allowed replaces a volume, a bucket or a key.
 */
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
const HOLDS_DATA = ["aws_ebs_volume", "aws_kms_key", "aws_s3_bucket", "aws_db_instance"];
const DATABASE = "aws_db_instance.metadata_instance";
/** Terraform's own number for the attributes of a database in a state. */
const SCHEMA_VERSIONS: Record<string, number> = { aws_db_instance: 2 };

function stackText(change: Partial<ClusterStackSpec> = {}): string {
  return synthesizeCluster({ ...SPEC, ...change }, OFFLINE);
}

/** What AWS would have decided of a resource that the first plan creates. */
function decided(type: string, address: string, after: Record<string, unknown>) {
  if (type === "aws_kms_key") return { id: "1", key_id: "1", arn: KEY_ARN };
  if (type === "aws_s3_bucket") return { id: after.bucket, arn: `arn:aws:s3:::${after.bucket}` };
  if (type === "aws_db_instance") {
    const name = after.identifier;
    return {
      id: "db-1",
      address: "metadata.test",
      kms_key_id: KEY_ARN,
      performance_insights_kms_key_id: KEY_ARN,
      db_subnet_group_name: name,
    };
  }
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
          schema_version: SCHEMA_VERSIONS[type] ?? 0,
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
      { mode: "purge" },
      { network: existing, storage: { kmsKeyArn: KEY_ARN } },
      { slots: 9, size: "medium", wal: { ...SPEC.wal, type: "io2", throughputMibps: undefined } },
    ];
    for (const spec of specs) {
      folder.write(stackText(spec));
      expect(await folder.expect("validate", "-no-color")).toContain("Success");
    }
  });

  test("plans 102 resources, all to create, and passes the policy", () => {
    const actions = first.resource_changes.map(({ change }) => change.actions.join("+"));
    expect(new Set(actions)).toEqual(new Set(["create"]));
    expect(actions).toHaveLength(102);
    expect(checkPolicies(first, { kind: "cluster" })).toEqual([]);
    expect(JSON.stringify(first)).not.toContain("must-stay-out");
  });

  const wal = (change: Partial<ClusterStackSpec["wal"]>) => ({ wal: { ...SPEC.wal, ...change } });
  test.each<[string, Partial<ClusterStackSpec>, "update" | "no-op"]>([
    ["throughput", wal({ throughputMibps: 500 }), "update"],
    [
      "machines, broker, settings, reach and number",
      {
        mode: "paused",
        size: "medium",
        slots: 4,
        artefact: { ...SPEC.artefact, key: "broker/next", sha256: "cd".repeat(32) },
        properties: {},
        network: { ...SPEC.network, access: "private", allowedPrincipals: [], allowedCidrs: [] },
      },
      "no-op",
    ],
    ["labels, and a deletion that keeps data", { mode: "retained", labels: {} }, "update"],
  ])("a change of %s is in place", async (_, change, actions) => {
    expect(forbiddenChanges(SPEC, { ...SPEC, ...change })).toEqual([]);
    folder.writeState(stateOf(first));
    folder.write(stackText(change));
    const plan = await folder.plan();
    const {
      "aws_ebs_volume.wal-4_volume": added,
      [DATABASE]: database,
      ...found
    } = dataActions(plan);
    expect(database).toMatch(/^(no-op|update)$/);
    expect(added).toBe(change.slots === 4 ? "create" : undefined);
    expect(found).toEqual({
      "aws_ebs_volume.wal-1_volume": actions,
      "aws_ebs_volume.wal-2_volume": actions,
      "aws_ebs_volume.wal-3_volume": actions,
      "aws_kms_key.encryption_key": expect.stringMatching(/^(no-op|update)$/),
      "aws_s3_bucket.data_bucket": expect.stringMatching(/^(no-op|update)$/),
    });
    expect(checkPolicies(plan, { kind: "cluster" })).toEqual([]);
  });

  test("another zone and another key are refused; Terraform would have refused them too", async () => {
    const change: Partial<ClusterStackSpec> = {
      zones: ["eu-central-1b", "eu-central-1a", "eu-central-1c"],
      storage: { kmsKeyArn: `${KEY_ARN}2` },
    };
    const refused = forbiddenChanges(SPEC, { ...SPEC, ...change });
    expect(refused.map(({ pointer }) => pointer)).toEqual(["/storage/kms_key_arn", "/zones"]);
    folder.writeState(stateOf(first));
    folder.write(stackText(change));
    const { code, output } = await folder.run("plan", "-refresh=false", "-no-color");
    expect(code).toBe(1);
    expect(output).toMatch(/Instance cannot be destroyed[\s\S]*aws_ebs_volume/);
  });

  // What is not in the stack any more has nothing to protect it: the plan has to be looked at.
  test("a slot less is refused unless its broker leaves: the policy sees the loss of its volume", async () => {
    expect(forbiddenChanges(SPEC, { ...SPEC, slots: 2 })).toEqual([]);
    folder.writeState(stateOf(first));
    folder.write(stackText({ slots: 2 }));
    const plan = await folder.plan();
    const lost = "aws_ebs_volume.wal-3_volume";
    expect(dataActions(plan)[lost]).toBe("delete");
    const findings = checkPolicies(plan, { kind: "cluster" });
    expect(findings.map(({ rule, address, severity }) => [rule, address, severity])).toEqual([
      ["data-loss", lost, "error"],
    ]);
    expect(checkPolicies(plan, { kind: "cluster", leaving: [lost] })).toEqual([]);
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
