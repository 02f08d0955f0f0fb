/** An emulator of AWS on loopback, one per test file: it keeps everything in memory. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { openSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { IAMClient } from "@aws-sdk/client-iam";
import { ResourceGroupsTaggingAPIClient } from "@aws-sdk/client-resource-groups-tagging-api";
import { linkCredential } from "@millrace/domain";
import { type AwsDriverOptions, StateSeal, type TerraformProgram } from "../src/aws.ts";
import type { ClusterDeployment, Placement } from "../src/index.ts";
import { SymmetricWrappingKey } from "../src/terraform/state-seal.ts";
import { EMULATOR_GAPS } from "./emulator-gaps.ts";
import { MemoryStates } from "./memory-states.ts";

const moto = process.env.MILLRACE_MOTO || undefined;
const mirror = process.env.MILLRACE_TERRAFORM_MIRROR || undefined;
/** A file for what it writes: the traces of its own faults are nowhere else. */
const log = process.env.MILLRACE_MOTO_LOG || undefined;
const terraform = process.env.MILLRACE_TERRAFORM_BIN || "terraform";

/** Whether Terraform, its provider and the emulator are available; otherwise tests are skipped by name. */
export const hasEmulator = moto !== undefined && mirror !== undefined;
/** Whether Terraform and its provider are. */
export const hasTerraform = mirror !== undefined;

export const REGION = "eu-central-1";
export const ACCOUNT_ID = "123456789012";

export const program: TerraformProgram = {
  bin: terraform,
  mirror,
  path: process.env.PATH ?? "",
  home: "/nonexistent",
  credentials: {},
  gogc: process.env.GOGC,
};

/** Where clusters' brokers would reach the control plane. */
export const CONTROL_LINK = {
  name: `com.amazonaws.vpce.${REGION}.vpce-svc-0123456789abcdef0`,
  domain: "link.millrace.example.com",
  zones: ["a", "b", "c"].map((letter) => `${REGION}${letter}`),
};

/** Of no use to anybody: it has the name that RDS's authority of the region has. */
const DATABASE_AUTHORITIES = readFileSync(
  join(import.meta.dirname, "database-authority.pem"),
  "utf8",
);

export interface Moto {
  readonly endpoint: string;
  stop(): Promise<void>;
}

const START_TIMEOUT_MS = 60_000;

export interface MotoOptions {
  /** With the faults fixed that patched-moto.py names. */
  readonly patched?: boolean;
}

export async function startMoto({ patched = false }: MotoOptions = {}): Promise<Moto> {
  const port = await freePort();
  const [command, ...first] = patched
    ? [join(dirname(moto ?? ""), "python3"), join(import.meta.dirname, "patched-moto.py")]
    : [moto ?? ""];
  const args = [...first, "-H", "127.0.0.1", "-p", String(port)];
  const stderr = log === undefined ? "ignore" : openSync(log, "a");
  const child = spawn(command ?? "", args, { stdio: ["ignore", "ignore", stderr] });
  const endpoint = `http://127.0.0.1:${port}`;
  const deadline = performance.now() + START_TIMEOUT_MS;
  while (!(await answers(endpoint))) {
    if (performance.now() > deadline || child.exitCode !== null) {
      child.kill("SIGKILL");
      throw new Error(`${moto} did not start on ${endpoint}`);
    }
    await sleep(200);
  }
  return { endpoint, stop: () => ended(child) };
}

/** Settings under which a driver works against the emulator. */
export function driverOptions(
  home: string,
  endpoint: string,
  changes: Partial<AwsDriverOptions> = {},
): AwsDriverOptions {
  return {
    home,
    program,
    states: new MemoryStates(),
    seal: new StateSeal(new SymmetricWrappingKey(randomBytes(32))),
    gateways: { url: "http://127.0.0.1:9", token: "nobody listens" },
    linkCredentials: {
      issue: async () => linkCredential(randomBytes(32).toString("base64url")),
      withdraw: async () => {},
      revoke: async () => {},
    },
    account: {
      roleArn: `arn:aws:iam::${ACCOUNT_ID}:role/millrace-provisioner`,
      externalId: "a secret of the tests",
      artefact: { bucket: "artefacts", key: "millrace", sha256: "a".repeat(64) },
      amiId: "ami-0123456789abcdef0",
      permissionsBoundaryArn: `arn:aws:iam::${ACCOUNT_ID}:policy/millrace-boundary`,
      controlLink: CONTROL_LINK,
      databaseAuthorities: DATABASE_AUTHORITIES,
      endpoint,
      without: EMULATOR_GAPS.map((gap) => gap.without),
    },
    ...changes,
  };
}

export async function awsDeployment(
  driver: { allocate(clusterId: string): Promise<Placement> },
  clusterId: string,
): Promise<ClusterDeployment> {
  return {
    clusterId,
    organizationId: "org_a",
    environmentId: "env_a",
    name: "orders",
    region: REGION,
    size: "dev",
    brokers: 1,
    paused: false,
    plaintextListener: true,
    labels: { team: "a" },
    placement: await driver.allocate(clusterId),
    walCapacityBytes: 8 * 1024 ** 3,
    properties: { "s3.wal.cache.size": "268435456" },
    aws: {
      zones: ["a", "b", "c"].map((letter) => `${REGION}${letter}`),
      wal: { type: "gp3", sizeGib: 10, iops: 3000, throughputMibps: 125 },
      network: {
        vpcId: undefined,
        subnetIds: [],
        cidr: "10.40.0.0/16",
        access: "private",
        allowedPrincipals: [],
        allowedCidrs: [],
      },
      storage: { kmsKeyArn: undefined },
    },
  };
}

/** Options of an AWS client that speaks to the emulator. */
export function clientOptions(endpoint: string) {
  return { endpoint, region: REGION, credentials: { accessKeyId: "t", secretAccessKey: "t" } };
}

export function taggingClient(endpoint: string): ResourceGroupsTaggingAPIClient {
  return new ResourceGroupsTaggingAPIClient(clientOptions(endpoint));
}

export function iamClient(endpoint: string): IAMClient {
  return new IAMClient(clientOptions(endpoint));
}

async function answers(endpoint: string): Promise<boolean> {
  try {
    return (await fetch(`${endpoint}/moto-api/`)).ok;
  } catch {
    return false;
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await exited;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
