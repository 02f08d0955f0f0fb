/**
 * An analyser that is not ours reads the plans of both stacks and every policy that they, and the
 * provisioner's role, have. What it finds is fixed or explained in `static-analysis.json`, one by
 * one, and an explanation that is no longer needed fails as well.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { permissionsBoundary, provisionerPolicies } from "../../src/iam/index.ts";
import { synthesizeCluster } from "../../src/index.ts";
import { checkPolicies } from "../../src/policy/index.ts";
import explained from "../../src/policy/static-analysis.json" with { type: "json" };
import { synthesizeControlPlane } from "../../src/stacks/control-plane/control-plane-stack.ts";
import { CONTROL_PLANE } from "../control-plane-fixture.ts";
import { OFFLINE, SPEC } from "../stack-fixture.ts";
import { HAS_TERRAFORM, TerraformFolder } from "./terraform-folder.ts";

const CHECKOV = process.env.MILLRACE_CHECKOV ?? "";
const SCAN_MS_MAX = 180_000;
const REPORT_BYTES_MAX = 64 * 2 ** 20;
const POLICY_TYPES = /^aws_(iam_(role|role_policy|policy)|s3_bucket_policy|kms_key)$/;

interface Verdict {
  readonly check_id: string;
  readonly resource: string;
}

interface Report {
  readonly failed: readonly Verdict[];
  readonly passed: readonly Verdict[];
}

interface PlannedResource {
  readonly address: string;
  readonly type: string;
  readonly values: Record<string, unknown>;
}

/** The part of `terraform show -json` that checkov reads. */
interface Plan {
  readonly planned_values: { readonly root_module: { readonly resources: PlannedResource[] } };
  readonly resource_changes: readonly unknown[];
}

describe.skipIf(CHECKOV === "" || !HAS_TERRAFORM)("checkov", () => {
  const reports = new Map<string, Report>();
  const plans = new Map<string, Plan>();
  let folder = "";

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "millrace-checkov-"));
    const cluster = synthesizeCluster(SPEC, OFFLINE);
    const controlPlane = synthesizeControlPlane(CONTROL_PLANE, OFFLINE);
    const [clusterPlan, controlPlanePlan] = await Promise.all(
      [cluster, controlPlane].map(completePlan),
    );
    plans.set("cluster", clusterPlan as Plan);
    plans.set("control-plane", controlPlanePlan as Plan);
    plans.set("provisioner", provisionerPlan());
    await Promise.all(
      [...plans].map(async ([name, plan]) => reports.set(name, await scan(folder, name, plan))),
    );
  }, 300_000);

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test.each(["cluster", "control-plane", "provisioner"])("%s: found is explained", (stack) => {
    const found = reports.get(stack)?.failed.map(({ check_id, resource }) => [check_id, resource]);
    const known = explained
      .filter((entry) => entry.stack === stack)
      .map(({ check, resource }) => [check, resource]);
    expect(found?.map(String).sort()).toEqual(known.map(String).sort());
  });

  test.each(["cluster", "control-plane"] as const)("%s: the plan passes our own rules", (kind) => {
    expect(checkPolicies(plans.get(kind), { kind })).toEqual([]);
  });

  test("every explanation says why", () => {
    for (const { reason } of explained) expect(reason.length).toBeGreaterThan(20);
  });

  test("every policy of a role, a bucket and a key was read", () => {
    for (const [name, plan] of plans) {
      const report = reports.get(name);
      const checked = new Set(
        [...(report?.passed ?? []), ...(report?.failed ?? [])].map(({ resource }) => resource),
      );
      const policies = plan.planned_values.root_module.resources.filter(({ type }) =>
        POLICY_TYPES.test(type),
      );
      expect(policies.length).toBeGreaterThan(0);
      for (const { address, type, values } of policies) {
        expect(checked, address).toContain(address);
        const text = type === "aws_iam_role" ? values.assume_role_policy : values.policy;
        expect(JSON.parse(String(text)).Statement.length, address).toBeGreaterThan(0);
      }
    }
  });

  test("a policy that allows too much is found in each place", async () => {
    const wide = JSON.stringify({
      Version: "2012-10-17",
      Statement: [{ Effect: "Allow", Principal: { AWS: "*" }, Action: "*", Resource: "*" }],
    });
    const plan = structuredClone(plans.get("control-plane")) as Plan;
    const resources = plan.planned_values.root_module.resources.filter(({ type }) =>
      POLICY_TYPES.test(type),
    );
    for (const { type, values } of resources) {
      values[type === "aws_iam_role" ? "assume_role_policy" : "policy"] = wide;
    }
    const before = reports.get("control-plane")?.failed.map(String) ?? [];
    const { failed } = await scan(folder, "wide", plan);
    expect(failed.length).toBeGreaterThan(before.length);
    const accused = new Set(failed.map(({ resource }) => resource));
    for (const { address } of resources) expect(accused, address).toContain(address);
  }, 200_000);
});

/** Policies that name ARNs which only AWS knows are not in a plan: they are taken from the stack. */
async function completePlan(stack: string): Promise<Plan> {
  const folder = await TerraformFolder.open(stack);
  try {
    await folder.expect("validate", "-no-color");
    return withPolicies((await folder.plan()) as unknown as Plan, stack);
  } finally {
    folder.close();
  }
}

function withPolicies(plan: Plan, stack: string): Plan {
  const { resource } = JSON.parse(stack) as {
    resource: Record<string, Record<string, Record<string, unknown>>>;
  };
  for (const { address, type, values } of plan.planned_values.root_module.resources) {
    const written = resource[type]?.[address.split(".")[1] as string] ?? {};
    for (const attribute of ["policy", "assume_role_policy"]) {
      const text = written[attribute];
      if (values[attribute] !== undefined || typeof text !== "string") continue;
      values[attribute] = text.replaceAll(/\$\{[^}]*\}/g, "arn:aws:service:region:1:later");
    }
  }
  return plan;
}

/** The provisioner's policies and the boundary stand in no stack: somebody makes them by hand. */
function provisionerPlan(): Plan {
  const accountId = SPEC.accountId;
  const policies = [
    ...provisionerPolicies({
      accountId,
      permissionsBoundaryArn: SPEC.permissionsBoundaryArn,
      linkDomain: SPEC.controlLink.domain,
    }),
    { name: "boundary", document: permissionsBoundary({ accountId, artefactBucket: "builds" }) },
  ];
  const resources = policies.map(
    ({ name, document }): PlannedResource => ({
      address: `aws_iam_policy.${name}`,
      type: "aws_iam_policy",
      values: { name, policy: JSON.stringify(document) },
    }),
  );
  return {
    planned_values: {
      root_module: {
        resources: resources.map((resource) => ({
          ...resource,
          mode: "managed",
          name: resource.values.name,
          provider_name: "registry.terraform.io/hashicorp/aws",
        })),
      },
    },
    resource_changes: resources.map(({ address, type, values }) => ({
      address,
      type,
      name: values.name,
      mode: "managed",
      change: { actions: ["create"], before: null, after: values, after_unknown: {} },
    })),
  };
}

async function scan(folder: string, name: string, plan: Plan): Promise<Report> {
  const file = join(folder, `${name}.json`);
  writeFileSync(
    file,
    JSON.stringify({ format_version: "1.2", terraform_version: "1.11.4", ...plan }),
  );
  const { stdout } = await promisify(execFile)(
    CHECKOV,
    [
      "-f",
      file,
      "--framework",
      "terraform_plan",
      "--compact",
      "--skip-download",
      "--soft-fail",
      "-o",
      "json",
    ],
    { timeout: SCAN_MS_MAX, maxBuffer: REPORT_BYTES_MAX, cwd: folder },
  );
  const { results, summary } = JSON.parse(stdout);
  expect(summary.parsing_errors, name).toBe(0);
  return { failed: results.failed_checks, passed: results.passed_checks };
}
