/**
 * Clients that are programs of their own: installed from the registries into `.millrace-tools/clients`, each pinned to
 * one version.
 *
 * A program gets the values to write as lines on its standard input and prints what it reads. Its environment says how it
 * connects: CLIENT_BOOTSTRAP, CLIENT_PROTOCOL, CLIENT_CA_FILE, CLIENT_IDENTITY_FILE, CLIENT_MECHANISM, CLIENT_USERNAME,
 * CLIENT_PASSWORD (with OAUTHBEARER: the token) and CLIENT_TOPIC.
 *
 * In the steady mode, with the argument `steady`, a program sends CLIENT_RECORDS_PER_SECOND records to each of
 * CLIENT_PARTITIONS partitions until its standard input ends, with acks=all and, where the client can, idempotently. The
 * values of a partition are 0, 1, 2 and so on. A consumer group of its own reads the topic until the program is ended.
 * CLIENT_TUNED=1 asks for the settings of OPERATIONS.md ("Clients while partitions move") instead of the client's defaults.
 * Lines on standard output:
 *
 *     acked PARTITION VALUE TIME      the acknowledgement has reached the application; TIME is Unix time in ms
 *     failed PARTITION VALUE ERROR    the application has got an error instead
 *     read PARTITION VALUE            the consumer was given the record
 *     error ERROR                     the consumer has got an error
 *     flushed                         after the end of the input: nothing is under way any more
 */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { Readable } from "node:stream";
import { promisify } from "node:util";
import { runLines } from "../kafka/clients/client.ts";
import type { SignIn } from "../kafka/clients/signed-in.ts";

/** A client's program, with the version in its name. */
export interface Program {
  name: string;
  command: string[];
  /** Tries share groups instead of `command`: older versions of the client cannot compile it. */
  shareCommand?: string[];
}

/** How a client takes part: it writes the values and returns what it has read. */
export interface Exchanger {
  name: string;
  exchange(signIn: SignIn, topic: string, values: string[]): Promise<string[]>;
}

const JAVA_VERSIONS = ["3.7.2", "4.1.1"] as const;
/** Only capabilities are tried with it. */
const JAVA_NEWEST = "4.4.0";
const PYTHON_PACKAGES = [
  { name: "kafka-python", version: "2.0.6", program: "kafka_python.py" },
  { name: "kafka-python", version: "3.0.12", program: "kafka_python.py" },
  { name: "confluent-kafka", version: "2.16.1", program: "confluent.py" },
] as const;
/** Only capabilities are tried with it. */
const AIOKAFKA = { name: "aiokafka", version: "0.14.0" };
/** Their versions stand in go/go.mod. */
const GO_PROGRAMS = [
  { name: "franz-go", program: "franz", module: "github.com/twmb/franz-go" },
  { name: "sarama", program: "sarama", module: "github.com/IBM/sarama" },
  { name: "kafka-go", program: "kafkago", module: "github.com/segmentio/kafka-go" },
] as const;
/** It has the steady mode only. */
const WITHOUT_EXCHANGE = "kafka-go";
/** Clients with the steady mode; of several versions, the newest. */
const STEADY = ["confluent-kafka", "Java kafka-clients", "franz-go", "sarama", "kafka-go"];

const here = import.meta.dirname;
const installed = join(here, "../../.millrace-tools/clients");
const INSTALL_MS_MAX = 300_000;
const run = promisify(execFile);

/** What must be there already, with the Debian package or the page that has it. */
const NEEDED = {
  java: "default-jdk",
  mvn: "maven",
  go: "Go 1.26, https://go.dev/dl",
  python3: "python3-venv",
  kcat: "kcat",
  openssl: "openssl",
};

/** @throws Error naming the programs that this machine lacks. */
export function assertInstallable(): void {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const absent = Object.entries(NEEDED).filter(
    ([program]) => !folders.some((folder) => existsSync(join(folder, program))),
  );
  if (absent.length === 0) return;
  const list = absent.map(([program, source]) => `${program} (${source})`).join(", ");
  throw new Error(`not on PATH: ${list}`);
}

/** Installs what is missing. @throws Error with the installer's complaint where that fails. */
export async function installClients(): Promise<Exchanger[]> {
  const programs = await installPrograms();
  return programs.filter(({ name }) => !name.startsWith(WITHOUT_EXCHANGE)).map(exchanger);
}

/** The programs that have the steady mode, which these commands run. @throws Error as `installClients` does. */
export async function installSteadyPrograms(): Promise<Program[]> {
  const programs = await installPrograms();
  return STEADY.map((client) => {
    const program = programs.findLast(({ name }) => name.startsWith(client));
    if (program === undefined) throw new Error(`no program of ${client}`);
    return { ...program, command: [...program.command, "steady"] };
  });
}

/** The programs that try one capability, which is their last argument. @throws Error as `installClients` does. */
export async function installCapabilityPrograms(): Promise<Program[]> {
  mkdirSync(installed, { recursive: true });
  const javas = [...JAVA_VERSIONS, JAVA_NEWEST];
  for (const version of javas) await installJavaVersion(version);
  const java = javas.map((version) => ({
    name: `Java kafka-clients ${version}`,
    command: javaProgram(version, "Capability.java"),
    ...(version.startsWith("3.")
      ? {}
      : { shareCommand: javaProgram(version, "ShareCapability.java") }),
  }));
  const go = (await installGo()).map(({ name }) => ({
    name,
    command: [join(installed, "go-bin/capability"), name.split(" ")[0] ?? ""],
  }));
  const packages = [...PYTHON_PACKAGES.slice(1), AIOKAFKA];
  const python: Program[] = [];
  for (const { name, version } of packages) {
    const command = [
      await installPythonPackage(name, version),
      join(here, "python/capability.py"),
      name,
    ];
    python.push({ name: `${name} ${version}`, command });
  }
  return [...java, ...go, ...python];
}

async function installPrograms(): Promise<Program[]> {
  mkdirSync(installed, { recursive: true });
  return [...(await installJava()), ...(await installGo()), ...(await installPython())];
}

/** Creates the user for both SCRAM mechanisms, with Kafka's own admin client. */
export async function createScramUser(signIn: SignIn): Promise<void> {
  await runProgram(javaCommand(JAVA_VERSIONS[1], "user"), signIn, "", []);
}

async function installJava(): Promise<Program[]> {
  for (const version of JAVA_VERSIONS) await installJavaVersion(version);
  return JAVA_VERSIONS.map((version) => ({
    name: `Java kafka-clients ${version}`,
    command: javaCommand(version),
  }));
}

async function installJavaVersion(version: string): Promise<void> {
  const folder = javaFolder(version);
  if (isComplete(folder)) return;
  const goal = ["-q", "-B", "-f", join(here, "java/pom.xml"), "dependency:copy-dependencies"];
  await install("mvn", [...goal, `-Dkafka.version=${version}`, `-DoutputDirectory=${folder}`]);
  markComplete(folder);
}

function javaFolder(version: string): string {
  return join(installed, `java-${version}`);
}

function javaCommand(version: string, ...args: string[]): string[] {
  return [...javaProgram(version, "Exchange.java"), ...args];
}

function javaProgram(version: string, source: string): string[] {
  const machine = ["-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
  return ["java", ...machine, "-cp", join(javaFolder(version), "*"), join(here, "java", source)];
}

async function installGo(): Promise<Program[]> {
  const folder = join(here, "go");
  const env = { ...process.env, GOBIN: join(installed, "go-bin"), GOFLAGS: "-buildvcs=false" };
  await install("go", ["install", "./..."], { cwd: folder, env });
  const listed = await install("go", ["list", "-m", "-f", "{{.Path}} {{.Version}}", "all"], {
    cwd: folder,
    env,
  });
  const versions = new Map(listed.split("\n").map((line) => line.split(" ") as [string, string]));
  return GO_PROGRAMS.map(({ name, program, module }) => ({
    name: `${name} ${versions.get(module)?.replace(/^v/, "")}`,
    command: [join(installed, "go-bin", program)],
  }));
}

async function installPython(): Promise<Program[]> {
  const programs: Program[] = [];
  for (const { name, version, program } of PYTHON_PACKAGES) {
    const command = [await installPythonPackage(name, version), join(here, "python", program)];
    programs.push({ name: `${name} ${version}`, command });
  }
  return programs;
}

/** @returns the interpreter that has the package. */
async function installPythonPackage(name: string, version: string): Promise<string> {
  const folder = join(installed, `${name}-${version}`);
  if (!isComplete(folder)) {
    await install("python3", ["-m", "venv", "--clear", folder]);
    const pip = ["install", "--quiet", "--disable-pip-version-check", `${name}==${version}`];
    await install(join(folder, "bin/pip"), pip);
    markComplete(folder);
  }
  return join(folder, "bin/python");
}

/** What an installation that was interrupted left is installed again. */
function isComplete(folder: string): boolean {
  return existsSync(join(folder, "complete"));
}

function markComplete(folder: string): void {
  writeFileSync(join(folder, "complete"), "");
}

async function install(
  command: string,
  args: string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  const { stdout } = await run(command, args, { ...options, timeout: INSTALL_MS_MAX });
  return stdout;
}

function exchanger({ name, command }: Program): Exchanger {
  return {
    name,
    exchange: (signIn, topic, values) => runProgram(command, signIn, topic, values),
  };
}

async function runProgram(
  [command = "", ...args]: string[],
  signIn: SignIn,
  topic: string,
  values: string[],
): Promise<string[]> {
  const seen: string[] = [];
  await runLines(command, args, {
    input: Readable.from([values.map((value) => `${value}\n`).join("")]),
    onLine: (line) => seen.push(line),
    env: {
      ...process.env,
      CLIENT_BOOTSTRAP: signIn.bootstrap,
      CLIENT_PROTOCOL: signIn.protocol,
      CLIENT_CA_FILE: signIn.caFile,
      CLIENT_IDENTITY_FILE: signIn.identityFile ?? "",
      CLIENT_MECHANISM: signIn.mechanism,
      CLIENT_USERNAME: signIn.username,
      CLIENT_PASSWORD: signIn.password,
      CLIENT_TOPIC: topic,
    },
  });
  return seen;
}
