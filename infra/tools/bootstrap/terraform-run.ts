import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { STACK_FILE } from "../../src/synth.ts";
import { Refused } from "./refused.ts";

const OUTPUT_BYTES_MAX = 64 * 2 ** 20;
const ENVIRONMENT =
  /^(PATH|HOME|TMPDIR|LANG|GOGC|SSL_CERT_FILE|https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY|AWS_[A-Z_]+)$/;

/** Terraform in one folder, with this process's AWS credentials. */
export class TerraformRun {
  readonly #folder: string;
  readonly #env: NodeJS.ProcessEnv;

  constructor(folder: string, secrets: Readonly<Record<string, string>>) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.#folder = folder;
    const mirror = process.env.MILLRACE_TERRAFORM_MIRROR;
    const config = join(folder, "terraform.rc");
    writeFileSync(
      config,
      `disable_checkpoint = true\n${mirror ? `provider_installation {\n  filesystem_mirror {\n    path = ${JSON.stringify(mirror)}\n  }\n}\n` : ""}`,
    );
    this.#env = {
      ...Object.fromEntries(Object.entries(process.env).filter(([name]) => ENVIRONMENT.test(name))),
      TF_CLI_CONFIG_FILE: config,
      TF_IN_AUTOMATION: "1",
      ...Object.fromEntries(
        Object.entries(secrets).map(([name, value]) => [`TF_VAR_${name}`, value]),
      ),
    };
  }

  write(stack: string): void {
    writeFileSync(join(this.#folder, STACK_FILE), stack, { mode: 0o600 });
  }

  read(file: string): string {
    return readFileSync(join(this.#folder, file), "utf8");
  }

  /**
   * Keeps a state under another name once it has moved: beside a new backend Terraform would ask
   * whether to move it there again.
   */
  putAside(file: string): void {
    const path = join(this.#folder, file);
    if (existsSync(path)) renameSync(path, `${path}.moved`);
  }

  /** Runs a command, its output shown as it comes. */
  async show(...args: string[]): Promise<void> {
    await this.#run(args, true);
  }

  /** Runs a command and answers what it printed. */
  capture(...args: string[]): Promise<string> {
    return this.#run(args, false);
  }

  #run(args: string[], shown: boolean): Promise<string> {
    const program = process.env.MILLRACE_TERRAFORM_BIN || "terraform";
    return new Promise((resolve, reject) => {
      const child = spawn(program, args, {
        cwd: this.#folder,
        env: this.#env,
        stdio: ["ignore", shown ? "inherit" : "pipe", "inherit"],
      });
      const chunks: Buffer[] = [];
      let bytes = 0;
      child.stdout?.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > OUTPUT_BYTES_MAX) child.kill("SIGINT");
        else chunks.push(chunk);
      });
      child.on("error", () =>
        reject(new Refused(`${program} cannot be run: install Terraform 1.11 or later`)),
      );
      child.on("close", (code) => {
        if (code === 0) resolve(Buffer.concat(chunks).toString());
        else
          reject(
            new Refused(
              `terraform ${args[0]} failed with exit code ${code}; nothing is lost: fix the cause and run this command again`,
            ),
          );
      });
    });
  }
}
