/** Plans without an account, by real Terraform and the real provider. */
import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { OfflinePlanner } from "../../src/aws.ts";
import type { ClusterDeployment } from "../../src/index.ts";
import { systemProcessTable } from "../../src/local/process-table.ts";
import { environmentOf, writeCliConfig } from "../../src/terraform/terraform-program.ts";
import { Workspace } from "../../src/terraform/workspace.ts";
import { EMULATOR_GAPS } from "../emulator-gaps.ts";
import { awsDeployment, hasTerraform, program } from "../moto.ts";

/** Ten seconds on two processors that are free; tests run beside others. */
const LIMIT_MS = 30_000;

describe.skipIf(!hasTerraform)("an offline plan", () => {
  let folder: string;
  let planner: OfflinePlanner;
  let wanted: ClusterDeployment;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "millrace-offline-"));
    planner = new OfflinePlanner({
      program,
      temporaryFolder: folder,
    });
    const place = { allocate: async () => ({ host: "h", kafkaPort: 9092 }) };
    // Several brokers have all that one has, and more.
    wanted = { ...(await awsDeployment(place, "clu_01JQZ3K5T8")), brokers: 3 };
  });

  afterAll(async () => await rm(folder, { recursive: true, force: true }));

  test("of the whole stack takes seconds and leaves nothing behind", async () => {
    const began = performance.now();
    const plan = await planner.plan(wanted, { purpose: "apply", offline: true });
    expect(performance.now() - began).toBeLessThan(LIMIT_MS);
    expect(plan.summary).toMatchObject({ update: 0, replace: 0, delete: 0, import: 0 });
    expect(new Set(plan.findings.map(({ rule }) => rule))).toEqual(new Set(["alone-in-zone"]));
    const types = new Set(plan.changes.map((change) => change.type));
    // What the emulator lacks is planned here.
    for (const { without } of EMULATOR_GAPS) expect(types).toContain(without.split(".")[0]);
    expect(plan.diff).toContain("+ aws_ebs_volume.wal-1_volume (create)");
    expect(plan.diff).not.toContain(tmpdir());
    expect(await readdir(folder)).toEqual([]);
  });

  test("has the same digest if repeated, and another for another spec", async () => {
    const options = { purpose: "apply", offline: true } as const;
    const paused = { ...wanted, paused: true };
    const [one, again, other] = await Promise.all([
      planner.plan(wanted, options),
      planner.plan(wanted, options),
      planner.plan(paused, options),
    ]);
    expect(again.digest).toBe(one.digest);
    expect(other.digest).not.toBe(one.digest);
  });

  test("with the provider as the images have it leaves no copy of it in the folder of the stack", async () => {
    // As in infra/images/Dockerfile: what `terraform init` installs is the mirror.
    const image = await mkdtemp(join(tmpdir(), "millrace-image-"));
    const cliConfig = await writeCliConfig(program, image);
    const required = { aws: { source: "hashicorp/aws" } };
    const versions = { terraform: { required_providers: required } };
    await writeFile(join(image, "versions.tf.json"), JSON.stringify(versions));
    const env = environmentOf(program, cliConfig) as NodeJS.ProcessEnv;
    await promisify(execFile)(program.bin, ["init", "-input=false"], { cwd: image, env });
    const mirror = join(image, ".terraform/providers");

    const stack = join(image, "stack");
    const unpacked = { ...program, mirror };
    const workspace = new Workspace({
      ...{ folder: stack, program: unpacked, table: systemProcessTable(), now: Date.now },
      cliConfig: await writeCliConfig(unpacked, join(image, "worker")),
    });
    await workspace.session({}, (run) => run.prepare("versions.tf.json", JSON.stringify(versions)));
    const versionsHere = join(stack, ".terraform/providers/registry.terraform.io/hashicorp/aws");
    const [version = ""] = await readdir(versionsHere);
    const [platform] = await readdir(join(versionsHere, version), { withFileTypes: true });
    expect(platform?.isSymbolicLink()).toBe(true);
    await rm(image, { recursive: true });
  });

  test("by a Terraform that is too old is rejected", async () => {
    const elsewhere = await mkdtemp(join(tmpdir(), "millrace-old-"));
    const bin = join(elsewhere, "terraform");
    const script = `#!/bin/sh\necho '{"terraform_version":"1.5.7"}'\n`;
    await writeFile(bin, script, { mode: 0o755 });
    const old = new OfflinePlanner({
      program: { ...program, bin },
      temporaryFolder: folder,
    });
    await expect(old.plan(wanted, { purpose: "apply", offline: true })).rejects.toThrow(
      "is version 1.5.7: Terraform 1.11 or newer is needed",
    );
    expect(await readdir(folder)).toEqual([]);
    await rm(elsewhere, { recursive: true });
  });

  test("that is aborted ends, and leaves nothing behind", async () => {
    const signal = AbortSignal.timeout(1_500);
    const plan = planner.plan(wanted, { purpose: "apply", offline: true, signal });
    await expect(plan).rejects.toMatchObject({ code: "aborted" });
    expect(await readdir(folder)).toEqual([]);
  });

  test("is the only kind without an account", async () => {
    await expect(planner.plan(wanted, { purpose: "apply" })).rejects.toMatchObject({
      code: "unconfigured",
    });
  });

  test("without Terraform says what is needed", async () => {
    const broken = new OfflinePlanner({
      program: { ...program, bin: "/nonexistent/terraform" },
      temporaryFolder: folder,
    });
    const plan = broken.plan(wanted, { purpose: "apply", offline: true });
    await expect(plan).rejects.toMatchObject({ code: "unconfigured" });
  });
});
