/**
 * What the tests of the AWS stacks are run with: Terraform and a folder with its AWS provider, an
 * emulator of AWS, a static analyser of policies, a checker of shell scripts. Found, or installed,
 * or named as absent.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { run } from "./command.ts";
import { root } from "./settings.ts";
import { print } from "./terminal.ts";
import { installPackage, onPath } from "./tools.ts";

/** Paths, as the tests read them from their environment. What is absent has none. */
export interface AwsTools {
  terraform: string | undefined;
  /** A filesystem mirror that holds hashicorp/aws. */
  terraformMirror: string | undefined;
  /** The program `moto_server`. */
  moto: string | undefined;
  checkov: string | undefined;
  shellcheck: string | undefined;
  /** Whether volumes of the broker slots can be formatted here as they are on AWS. */
  xfs: boolean;
  /** One line for each that could not be had. */
  absent: string[];
}

const MOTO = { name: "moto", requirement: "moto[server]==5.2.5", program: "moto_server" };
const CHECKOV = { name: "checkov", requirement: "checkov==3.3.30", program: "checkov" };
/** Ephemeral and write-only values came with it. */
const TERRAFORM_MIN = [1, 11] as const;
const TERRAFORM_FROM = "developer.hashicorp.com/terraform/install";
const INSTALL_SECONDS_MAX = 600;
/** It answers within a second or two, on a busy machine too. */
const VERSION_MS_MAX = 10_000;
/** Where people and images put a mirror; below them it is looked for one level deep. */
const MIRROR_PARENTS = ["/opt", "/usr/local/share", "/usr/share", homedir()];
const MIRROR_NAMES = ["tf-plugins", "terraform-plugins", "plugins"];
const AWS_IN_MIRROR = "registry.terraform.io/hashicorp/aws";

/** Finds or installs all of them. */
export async function findAwsTools(): Promise<AwsTools> {
  const found = findTerraform(process.env);
  const terraform = found.bin || undefined;
  const terraformMirror = findMirror();
  const moto = await fromPyPi(MOTO);
  const checkov = await fromPyPi(CHECKOV);
  const shellcheck = await distributed("shellcheck", "shellcheck");
  const xfs = (await distributed("mkfs.xfs", "xfsprogs")) !== undefined;
  const absent = [
    [
      terraform,
      `Terraform tests: ${found.refusal ?? "no terraform"}; ${TERRAFORM_MIN.join(".")} or later is needed (${TERRAFORM_FROM})`,
    ],
    [
      terraformMirror,
      "AWS stack tests: no folder with Terraform's AWS provider; create one with `terraform providers mirror` and set MILLRACE_TERRAFORM_MIRROR",
    ],
    [moto, "AWS emulator tests: moto cannot be installed (needs python3 with venv, and PyPI)"],
    [checkov, "policy analysis: checkov cannot be installed (needs python3 with venv, and PyPI)"],
    [
      shellcheck,
      "user data's shell check: no shellcheck (Debian/Ubuntu: apt-get install shellcheck)",
    ],
    [xfs || undefined, "user data's volume: no mkfs.xfs (Debian/Ubuntu: apt-get install xfsprogs)"],
  ].flatMap(([found, reason]) =>
    found === undefined && typeof reason === "string" ? [reason] : [],
  );
  return { terraform, terraformMirror, moto, checkov, shellcheck, xfs, absent };
}

/** The program that is to be used; empty where none can be. */
export interface FoundTerraform {
  readonly bin: string;
  /** One line: which program is there, and why it is not taken. */
  readonly refusal?: string;
}

/** Terraform, as it is named or else on PATH. */
export function findTerraform(env: NodeJS.ProcessEnv): FoundTerraform {
  const there = env.MILLRACE_TERRAFORM_BIN || onPath("terraform");
  if (there === undefined) return { bin: "" };
  const version = versionOf(there);
  if (version === undefined) return { bin: "", refusal: `${there} does not tell a version` };
  if (isNewEnough(version)) return { bin: there };
  return { bin: "", refusal: `${there} is Terraform ${version}` };
}

/** What to do where Terraform was refused. */
export const TERRAFORM_REMEDY = `install Terraform ${TERRAFORM_MIN.join(".")} or later (${TERRAFORM_FROM}) and put it on PATH, or set MILLRACE_TERRAFORM_BIN to its path`;

/**
 * Terraform and the folder with its AWS provider, in their variables; empty where there is none, so
 * that nobody takes one that was refused from the environment.
 */
export function terraformPaths({ bin }: FoundTerraform): NodeJS.ProcessEnv {
  return { MILLRACE_TERRAFORM_BIN: bin, MILLRACE_TERRAFORM_MIRROR: findMirror() ?? "" };
}

/** What the program calls itself, like `1.11.4`; undefined where it does not run, or says nothing. */
function versionOf(terraform: string): string | undefined {
  try {
    const said = execFileSync(terraform, ["version", "-json"], {
      encoding: "utf8",
      env: { ...process.env, CHECKPOINT_DISABLE: "1" },
      stdio: ["ignore", "pipe", "ignore"],
      timeout: VERSION_MS_MAX,
      killSignal: "SIGKILL",
    });
    const version: unknown = JSON.parse(said).terraform_version;
    return typeof version === "string" ? version : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a version is one that the configurations are written for. */
export function isNewEnough(version: string | undefined): boolean {
  const [major = 0, minor = 0] = (version ?? "")
    .split(".")
    .map((part) => Number.parseInt(part, 10));
  const [majorMin, minorMin] = TERRAFORM_MIN;
  return major > majorMin || (major === majorMin && minor >= minorMin);
}

/** The variables in which the tests look for the tools; empty where one is absent. */
export function awsToolPaths(tools: AwsTools): NodeJS.ProcessEnv {
  return {
    MILLRACE_TERRAFORM_BIN: tools.terraform ?? "",
    MILLRACE_TERRAFORM_MIRROR: tools.terraformMirror ?? "",
    MILLRACE_MOTO: tools.moto ?? "",
    MILLRACE_CHECKOV: tools.checkov ?? "",
    MILLRACE_SHELLCHECK: tools.shellcheck ?? "",
  };
}

/** A program of the distribution: there already, or installed. */
async function distributed(program: string, packageName: string): Promise<string | undefined> {
  return onPath(program) ?? ((await installPackage(packageName)) ? onPath(program) : undefined);
}

function findMirror(): string | undefined {
  const told = process.env.MILLRACE_TERRAFORM_MIRROR;
  if (told) return told;
  const usual = MIRROR_PARENTS.filter((parent) => existsSync(parent)).flatMap((parent) => [
    ...MIRROR_NAMES.map((name) => join(parent, name)),
    ...readdirSync(parent, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .flatMap((entry) => MIRROR_NAMES.map((name) => join(parent, entry.name, name))),
  ]);
  return usual.find((folder) => existsSync(join(folder, AWS_IN_MIRROR)));
}

/** A program from PyPI in a virtual environment of its own, kept under `.millrace-tools/`. */
async function fromPyPi(tool: typeof MOTO): Promise<string | undefined> {
  const dir = join(root, ".millrace-tools", tool.name);
  const program = join(dir, "bin", tool.program);
  const stamp = join(dir, `installed-${tool.requirement.replaceAll(/[^\w.=-]/g, "_")}`);
  if (existsSync(stamp) && existsSync(program)) return program;
  if (onPath("python3") === undefined) return undefined;
  print(`installing ${tool.requirement} from PyPI …`);
  mkdirSync(join(root, ".millrace-tools"), { recursive: true });
  const { code, output } = await run(
    "sh",
    [
      "-c",
      'python3 -m venv --clear "$1" && "$1/bin/pip" install --quiet --disable-pip-version-check "$2"',
      "sh",
      dir,
      tool.requirement,
    ],
    { cwd: root, title: `installing ${tool.name}`, secondsMax: INSTALL_SECONDS_MAX },
  );
  if (code !== 0) {
    console.error(output.split("\n").slice(-10).join("\n"));
    return undefined;
  }
  writeFileSync(stamp, "");
  return program;
}
