/**
 * The Terraform program, its environment and the source of its plugins.
 *
 * The environment is built from scratch: the worker's own has the database's address and the product's secrets,
 * and inherited `TF_*` variables would change what a plan means.
 */
import { execFile } from "node:child_process";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { ProvisionError } from "../cluster-driver.ts";

export interface TerraformProgram {
  /** Path of the program, or its name on `path`. */
  readonly bin: string;
  /** A folder with the providers, in Terraform's layout; the registry if absent. */
  readonly mirror?: string | undefined;
  /** `PATH` of the child. */
  readonly path: string;
  /** `HOME` of the child; the provider reads nothing there. */
  readonly home: string;
  /** Variables by which the provider finds credentials, such as `AWS_ACCESS_KEY_ID`. */
  readonly credentials: Readonly<Record<string, string>>;
  /** `GOGC` of Terraform and its providers: a higher value trades memory for CPU time. */
  readonly gogc?: string | undefined;
}

/** The oldest version that is tested. */
const VERSION_MIN = [1, 11] as const;

/** The CLI configuration: no telemetry, and providers only from the mirror if there is one. */
export function cliConfigOf(program: TerraformProgram, cacheFolder: string): string {
  const mirror = program.mirror;
  if (mirror === undefined) {
    return `disable_checkpoint = true\nplugin_cache_dir   = ${JSON.stringify(cacheFolder)}\n`;
  }
  return `disable_checkpoint = true
provider_installation {
  filesystem_mirror {
    path = ${JSON.stringify(mirror)}
  }
}
`;
}

/** Writes the CLI configuration and returns its path. */
export async function writeCliConfig(program: TerraformProgram, folder: string): Promise<string> {
  const cache = join(folder, "plugins");
  await mkdir(cache, { recursive: true, mode: 0o700 });
  const file = join(folder, "cli.tfrc");
  await replaceFile(file, cliConfigOf(program, cache));
  return file;
}

/** The environment of a Terraform run. */
export function environmentOf(
  program: TerraformProgram,
  cliConfig: string,
): Record<string, string> {
  return {
    ...program.credentials,
    ...(program.gogc === undefined ? {} : { GOGC: program.gogc }),
    PATH: program.path,
    HOME: program.home,
    TF_CLI_CONFIG_FILE: cliConfig,
    TF_IN_AUTOMATION: "1",
    TF_INPUT: "0",
    CHECKPOINT_DISABLE: "1",
    // Otherwise the provider would read the AWS profiles of the worker's user.
    AWS_CONFIG_FILE: "/dev/null",
    AWS_SHARED_CREDENTIALS_FILE: "/dev/null",
  };
}

/** Throws `ProvisionError` `unconfigured` if the program is absent or too old. */
export async function checkTerraform(
  program: TerraformProgram,
  cliConfig: string,
): Promise<string> {
  const needs = `Terraform ${VERSION_MIN.join(".")} or newer is needed (MILLRACE_TERRAFORM_BIN)`;
  let text: string;
  try {
    const env = environmentOf(program, cliConfig) as NodeJS.ProcessEnv;
    const options = { env, timeout: 30_000, maxBuffer: 1024 * 1024 };
    text = (await promisify(execFile)(program.bin, ["version", "-json"], options)).stdout;
  } catch (cause) {
    throw new ProvisionError("unconfigured", `cannot run ${program.bin}: ${needs}`, { cause });
  }
  const version = versionIn(text);
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [majorMin, minorMin] = VERSION_MIN;
  if (major > majorMin || (major === majorMin && minor >= minorMin)) return version;
  throw new ProvisionError("unconfigured", `${program.bin} is version ${version}: ${needs}`);
}

function versionIn(text: string): string {
  try {
    const answer: unknown = JSON.parse(text);
    if (typeof answer === "object" && answer !== null && "terraform_version" in answer) {
      return String(answer.terraform_version);
    }
  } catch {
    // Not Terraform.
  }
  return "unknown";
}

/** Replaces a file so that a reader, or a crash, sees the old content or the new, never a part. */
export async function replaceFile(path: string, content: string | Uint8Array): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const next = `${path}.${process.pid}.new`;
  await writeFile(next, content, { mode: 0o600, flush: true });
  await rename(next, path);
}

/** `undefined` where there is no such file. */
export async function readIfThere(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
