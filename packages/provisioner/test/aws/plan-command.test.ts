/** `npm run aws:plan` without an account. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { deploymentOf } from "../../tools/cluster-file.ts";

const COMMAND = fileURLToPath(new URL("../../tools/aws-plan.ts", import.meta.url));
const { GOGC, MILLRACE_TERRAFORM_BIN, MILLRACE_TERRAFORM_MIRROR, PATH } = process.env;
const hasTerraform = Boolean(MILLRACE_TERRAFORM_BIN) && Boolean(MILLRACE_TERRAFORM_MIRROR);

const folder = mkdtempSync(join(tmpdir(), "millrace-plan-command-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Outcome {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Runs the command with nothing in its environment that could reach an account. */
function run(...args: string[]): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [COMMAND, ...args], {
      env: { GOGC, PATH, HOME: folder, MILLRACE_TERRAFORM_BIN, MILLRACE_TERRAFORM_MIRROR },
    });
    let [out, err] = ["", ""];
    child.stdout.on("data", (bytes) => (out += bytes));
    child.stderr.on("data", (bytes) => (err += bytes));
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, out, err }));
  });
}

function fileOf(cluster: unknown): string {
  const path = join(folder, "cluster.json");
  writeFileSync(path, JSON.stringify(cluster));
  return path;
}

describe.skipIf(!hasTerraform)("aws:plan, with Terraform", () => {
  test("the example is three slots over three zones, with cost and policy", async () => {
    const { code, out } = await run("--example");
    expect(code).toBe(0);
    for (const slot of [1, 2, 3]) {
      const zone = `eu-central-1${"abc"[slot - 1]}`;
      expect(out).toMatch(new RegExp(`aws_ebs_volume.wal-${slot}_volume .*zone=${zone}`));
      expect(out).toContain(`aws_autoscaling_group.slot-${slot}_group`);
    }
    expect(out).toContain("Plan: 100 to create, 0 to change, 0 to replace, 0 to delete.");
    expect(out).toMatch(/EC2 instance m7g\.large +2,190 hour/);
    expect(out).toMatch(/Total +\$\d{3}\.\d\d/);
    expect(out).toContain("aws_db_instance.metadata_instance");
    expect(out).toMatch(/RDS PostgreSQL db\.t4g\.medium in two zones +730 hour/);
    expect(out).toContain("Policy: 3 found");
    expect(out).toContain("warning alone-in-zone aws_ebs_volume.wal-1_volume");
    expect(out).toMatch(/S3 reads +[\d,.]+ requests +× [\d.]+ per 1,000/);
  });

  test("a cluster of one's own, as JSON", async () => {
    const spec = fileOf({
      region: "us-east-1",
      size: "medium",
      wal: { type: "io2", size_gib: 50, iops: 5000 },
      network: { access: "endpoint_service", allowed_principals: ["arn:aws:iam::1:root"] },
    });
    const { code, out } = await run("--spec", spec, "--json");
    expect(code).toBe(0);
    const { plan, cost, policy, warnings } = JSON.parse(out);
    const [volume, ...others] = plan.changes.filter(
      ({ type }: { type: string }) => type === "aws_ebs_volume",
    );
    expect(others).toEqual([]);
    expect(volume.attributes).toContainEqual({ name: "iops", before: null, after: "5000" });
    expect(plan.changes.map(({ type }: { type: string }) => type)).toContain(
      "aws_vpc_endpoint_service",
    );
    expect(cost.lines.map(({ item }: { item: string }) => item)).toContain("EBS WAL volume IOPS");
    expect(policy).toEqual([]);
    expect(warnings).toEqual([]);
  });
});

test.each<[string, unknown, string]>([
  ["a size that is none", { size: "huge" }, "/size must be one of dev, small, medium"],
  ["a field that is misspelt", { network: { cdir: "10.0.0.0/16" } }, "/network/cdir is unknown"],
  ["this machine", { region: "local" }, "/region is this machine"],
  ["a list", [1], "/0 is unknown"],
])("%s is refused with its place", (_, cluster, message) => {
  expect(() => deploymentOf(cluster)).toThrow(message);
});

test("an invalid cluster file ends the command like a wrong argument", async () => {
  const { code, out, err } = await run("--spec", fileOf({ size: "huge" }));
  expect([code, out]).toEqual([2, ""]);
  expect(err).toContain("/size must be one of");
});

test("limits are reported before Terraform starts", async () => {
  const { code, err } = await run("--spec", fileOf({ wal: { iops: 5 }, brokers: 12 }));
  expect(code).toBe(1);
  expect(err).toContain("/wal/iops must be a whole number of IOPS from 3000 to 16000");
  expect(err).toContain("/brokers is 12");
});

test("without a cluster the usage is shown", async () => {
  const { code, err } = await run();
  expect(code).toBe(2);
  expect(err).toContain("--example");
});
