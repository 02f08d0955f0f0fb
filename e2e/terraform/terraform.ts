/** Real Terraform with the provider as it is built here, in a folder of its own. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { credentials, type Json } from "../product.ts";

const ROOT = join(import.meta.dirname, "../..");
const PROVIDER = join(ROOT, "apps/terraform-provider");
const COMMAND_MS_MAX = 180_000;

/** Why these tests cannot run here; undefined where they can. */
export const whyNot = reasonNot();
if (whyNot !== undefined) console.log(`skipped: the tests with real Terraform: ${whyNot}`);

function reasonNot(): string | undefined {
  const terraform = process.env.MILLRACE_TERRAFORM_BIN;
  if (!terraform || !existsSync(terraform)) return "needs MILLRACE_TERRAFORM_BIN";
  // The provider's own scripts know which Go builds it, and say so where there is none.
  const runner = join(PROVIDER, "tools/go.ts");
  const said = execFileSync(process.execPath, [runner, "version"], { encoding: "utf8" });
  return /^skipped: (.*)$/m.exec(said)?.[1];
}

/** Builds the provider; a second or two where nothing changed. */
export function buildProvider(): void {
  execFileSync("npm", ["run", "--silent", "build"], { cwd: PROVIDER, stdio: "pipe" });
}

export const EXAMPLES = join(PROVIDER, "examples");

/** Folders below examples/ that are configurations of their own. */
export function exampleFolders(): string[] {
  if (!existsSync(EXAMPLES)) return [];
  return readdirSync(EXAMPLES, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".tf"))
    .map((entry) => entry.parentPath.slice(EXAMPLES.length + 1))
    .filter((folder, at, all) => all.indexOf(folder) === at)
    .sort();
}

export interface Ran {
  readonly code: number;
  /** Both streams, as they came. */
  readonly output: string;
}

export interface RunOptions {
  /** The API; `npm start`'s own where nothing else is named. */
  readonly endpoint?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Told of the process, so that it can be signalled. */
  readonly onStart?: (terraform: ChildProcess) => void;
}

export class Workspace {
  readonly folder: string;

  constructor(...files: readonly [name: string, text: string][]) {
    this.folder = mkdtempSync(join(tmpdir(), "millrace-terraform-"));
    for (const [name, text] of files) this.write(name, text);
    const dist = join(PROVIDER, "dist");
    // With an override Terraform takes the program as it is, and needs no init.
    const rc = `disable_checkpoint = true
provider_installation {
  dev_overrides { "millrace/millrace" = "${dist}" }
  direct {}
}
`;
    writeFileSync(join(this.folder, "cli.tfrc"), rc);
  }

  write(name: string, text: string): void {
    writeFileSync(join(this.folder, name), text);
  }

  /** Takes an example as it stands. */
  copy(folder: string): void {
    cpSync(join(EXAMPLES, folder), this.folder, { recursive: true });
  }

  async run(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
    const terraform = spawn(process.env.MILLRACE_TERRAFORM_BIN as string, [...args, "-no-color"], {
      cwd: this.folder,
      timeout: COMMAND_MS_MAX,
      // A process group of its own, as a shell gives one: Ctrl-C reaches the provider too.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        PATH: process.env.PATH,
        HOME: this.folder,
        TF_CLI_CONFIG_FILE: join(this.folder, "cli.tfrc"),
        TF_IN_AUTOMATION: "1",
        CHECKPOINT_DISABLE: "1",
        MILLRACE_ENDPOINT: options.endpoint ?? credentials.apiUrl,
        MILLRACE_API_KEY: credentials.apiKey,
        // Examples take passwords from variables.
        TF_VAR_alice_password: "a password of the examples",
        ...options.env,
      },
    });
    let output = "";
    for (const stream of [terraform.stdout, terraform.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    }
    options.onStart?.(terraform);
    const [code] = (await once(terraform, "close")) as [number | null];
    return { code: code ?? 137, output };
  }

  /** @throws Error with what Terraform said, where it fails. */
  async apply(options: RunOptions & { readonly args?: readonly string[] } = {}): Promise<string> {
    const ran = await this.run(["apply", "-auto-approve", ...(options.args ?? [])], options);
    if (ran.code !== 0) throw new Error(ran.output);
    return ran.output;
  }

  /** What a plan would change, by address; empty where nothing. */
  async plan(options: RunOptions = {}): Promise<Record<string, string>> {
    const ran = await this.run(["plan", "-detailed-exitcode", "-out=plan.bin"], options);
    if (ran.code !== 0 && ran.code !== 2) throw new Error(ran.output);
    const shown = await this.show("plan.bin");
    const changes = (shown.resource_changes ?? []).filter(
      (change: Json) => change.change.actions.join() !== "no-op",
    );
    // The exit code and the plan must agree: a change of outputs alone counts as one too.
    if ((ran.code === 0) !== (changes.length === 0)) throw new Error(ran.output);
    return Object.fromEntries(
      changes.map((change: Json) => [change.address, change.change.actions.join()]),
    );
  }

  /** A saved plan, or the state where nothing is named, as JSON. */
  async show(plan?: string): Promise<Json> {
    const ran = await this.run(["show", "-json", ...(plan === undefined ? [] : [plan])]);
    if (ran.code !== 0) throw new Error(ran.output);
    return JSON.parse(ran.output.slice(ran.output.indexOf("{")).trim());
  }

  /** Attributes of every resource in the state, by address. */
  async resources(): Promise<Record<string, Json>> {
    const state = await this.show();
    const all: Json[] = state.values?.root_module?.resources ?? [];
    return Object.fromEntries(all.map((resource) => [resource.address, resource.values]));
  }

  /** Every file that Terraform wrote here, as text. */
  files(): Map<string, string> {
    return new Map(
      readdirSync(this.folder, { recursive: true })
        .map((name) => join(this.folder, String(name)))
        .filter((path) => statSync(path).isFile())
        .map((path) => [path, readFileSync(path, "latin1")]),
    );
  }

  /** Destroys what the state still has and removes the folder. */
  async remove(): Promise<void> {
    if (existsSync(join(this.folder, "terraform.tfstate"))) {
      const ran = await this.run(["destroy", "-auto-approve"]);
      if (ran.code !== 0) throw new Error(ran.output);
    }
    this.forget();
  }

  /** Removes the folder and leaves what it made. */
  forget(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
