/**
 * Plans a stack with the real Terraform and the real provider, but no account: what a tenant's
 * `validate_only` sees. Where either is not at hand, tests that need it are skipped by name.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

export const TERRAFORM = process.env.MILLRACE_TERRAFORM_BIN ?? "";
export const MIRROR = process.env.MILLRACE_TERRAFORM_MIRROR ?? "";

const COMMAND_MS_MAX = 120_000;
const OUTPUT_BYTES_MAX = 64 * 2 ** 20;

export interface PlannedResource {
  readonly address: string;
  readonly type: string;
  readonly values: Record<string, unknown>;
}

export interface PlanDocument {
  readonly planned_values: { readonly root_module: { readonly resources: PlannedResource[] } };
  readonly resource_changes: readonly {
    readonly address: string;
    readonly change: { readonly actions: readonly string[]; readonly after_unknown: unknown };
  }[];
}

/** What `terraform show -json` tells of the plan of this stack from nothing. */
export async function offlinePlan(
  stack: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<PlanDocument> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-plan-"));
  try {
    const config = join(folder, "terraform.rc");
    writeFileSync(
      config,
      `disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = ${JSON.stringify(MIRROR)}\n  }\n}\n`,
    );
    writeFileSync(join(folder, "cdk.tf.json"), stack);
    const env = {
      PATH: process.env.PATH,
      HOME: folder,
      TF_CLI_CONFIG_FILE: config,
      TF_IN_AUTOMATION: "1",
      CHECKPOINT_DISABLE: "1",
      ...Object.fromEntries(
        Object.entries(variables).map(([name, value]) => [`TF_VAR_${name}`, value]),
      ),
    };
    const terraform = async (...args: string[]) =>
      (
        await promisify(execFile)(TERRAFORM, args, {
          cwd: folder,
          env,
          timeout: COMMAND_MS_MAX,
          maxBuffer: OUTPUT_BYTES_MAX,
        })
      ).stdout;
    await terraform("init", "-input=false", "-no-color");
    await terraform("validate", "-no-color");
    await terraform("plan", "-input=false", "-no-color", "-refresh=false", "-out=plan");
    return JSON.parse(await terraform("show", "-json", "plan"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
