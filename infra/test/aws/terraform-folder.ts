import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { STACK_FILE, STATE_FILE } from "../../src/synth.ts";

const BINARY = process.env.MILLRACE_TERRAFORM_BIN;
const MIRROR = process.env.MILLRACE_TERRAFORM_MIRROR;

/** Whether there is a Terraform with the AWS provider; without, what needs it is skipped. */
export const HAS_TERRAFORM = Boolean(BINARY) && Boolean(MIRROR);

interface Change {
  readonly address: string;
  readonly type: string;
  readonly change: {
    readonly actions: readonly string[];
    readonly before: Record<string, unknown> | null;
    readonly after: Record<string, unknown> | null;
  };
}

export interface PlanDocument {
  readonly resource_changes: readonly Change[];
}

/** The end of a command. */
interface Outcome {
  readonly code: number | null;
  readonly output: string;
}

/** A working folder of Terraform: plans without an account, and remembers nothing elsewhere. */
export class TerraformFolder {
  readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  /** A folder in which the stack's provider is installed. */
  static async open(stack: string): Promise<TerraformFolder> {
    const folder = new TerraformFolder(mkdtempSync(join(tmpdir(), "millrace-plan-")));
    writeFileSync(
      join(folder.path, "cli.tfrc"),
      `disable_checkpoint = true\nprovider_installation { filesystem_mirror { path = "${MIRROR}" } }\n`,
    );
    folder.write(stack);
    await folder.expect("init", "-input=false");
    return folder;
  }

  close(): void {
    rmSync(this.path, { recursive: true, force: true });
  }

  write(stack: string): void {
    writeFileSync(join(this.path, STACK_FILE), stack);
  }

  writeState(state: unknown): void {
    writeFileSync(join(this.path, STATE_FILE), JSON.stringify(state));
  }

  /** Both streams of one command, however it ends. */
  run(...args: string[]): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const child = spawn(BINARY as string, args, {
        cwd: this.path,
        env: {
          PATH: process.env.PATH ?? "",
          HOME: this.path,
          GOGC: process.env.GOGC,
          TF_CLI_CONFIG_FILE: join(this.path, "cli.tfrc"),
          TF_IN_AUTOMATION: "1",
          TF_VAR_database_password: "a-password-that-must-stay-out",
          TF_VAR_api_database_password: "a-password-that-must-stay-out",
          TF_VAR_worker_database_password: "a-password-that-must-stay-out",
          TF_VAR_gateway_database_password: "a-password-that-must-stay-out",
          TF_VAR_metadata_password: "a-password-that-must-stay-out",
          TF_VAR_gateway_token: "a-token-that-must-stay-out",
          TF_VAR_external_id: "an-id-that-must-stay-out",
          TF_VAR_session_secret: "a-secret-that-must-stay-out",
        },
      });
      let output = "";
      child.stdout.on("data", (bytes) => (output += bytes));
      child.stderr.on("data", (bytes) => (output += bytes));
      child.on("error", reject);
      child.on("close", (code) => resolve({ code, output }));
    });
  }

  async expect(...args: string[]): Promise<string> {
    const { code, output } = await this.run(...args);
    if (code !== 0) throw new Error(`terraform ${args.join(" ")} ended with ${code}:\n${output}`);
    return output;
  }

  /** The plan of the folder's stack, from its state as it is written there. */
  async plan(): Promise<PlanDocument> {
    await this.expect("plan", "-refresh=false", "-input=false", "-no-color", "-out=plan.bin");
    return JSON.parse(await this.expect("show", "-json", "plan.bin"));
  }
}
