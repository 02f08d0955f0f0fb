/**
 * The bootstrap as an operator runs it: what it says without an account, what it refuses, and its
 * foundation against an emulator on loopback. The emulator has neither Fargate's nor RDS's
 * behaviour, so the rest is planned only (see static-analysis.test.ts).
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AWS_PROVIDER_VERSION } from "../../src/synth.ts";
import { HAS_TERRAFORM } from "./terraform-folder.ts";

const PROGRAM = resolve(import.meta.dirname, "../../tools/bootstrap.ts");
const ROOT = resolve(import.meta.dirname, "../../..");
const MOTO = process.env.MILLRACE_MOTO ?? "";
const ACCOUNT = "123456789012";
const BUCKET = `mr-main-artefacts-${ACCOUNT}-eu-central-1`;
/** The emulator tells who asks by the credential, and believes any signature. */
const SIGNED = {
  Authorization:
    "AWS4-HMAC-SHA256 Credential=none/20260101/eu-central-1/s3/aws4_request, SignedHeaders=host, Signature=0",
};
const START_SECONDS_MAX = 60;
const RUN_MS_MAX = 300_000;

interface Outcome {
  readonly code: number;
  readonly output: string;
}

function bootstrap(...args: string[]): Promise<Outcome> {
  return new Promise((done) => {
    execFile(
      process.execPath,
      [PROGRAM, "--region", "eu-central-1", "--account", ACCOUNT, ...args],
      { timeout: RUN_MS_MAX, maxBuffer: 16 * 2 ** 20 },
      (error, stdout, stderr) =>
        done({
          code: error === null ? 0 : Number(error.code ?? 1),
          output: `${stdout}${stderr}`,
        }),
    );
  });
}

/** The head of a program for a machine: `machine` is ELF's number of it. */
function program(machine: number): Buffer {
  const bytes = Buffer.alloc(64);
  bytes.writeUInt32BE(0x7f454c46, 0);
  bytes.writeUInt16LE(machine, 18);
  return bytes;
}

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-bootstrap-"));
  writeFileSync(join(folder, "arm64"), program(183));
  writeFileSync(join(folder, "arm64-newer"), Buffer.concat([program(183), Buffer.from("newer")]));
  const newerSystem = [program(183), Buffer.alloc(65_530), Buffer.from("\0GLIBC_2.35\0GLIBC_2.17")];
  writeFileSync(join(folder, "newer-system"), Buffer.concat(newerSystem));
  writeFileSync(join(folder, "x86-64"), program(62));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("without --apply", () => {
  test("it says what it would make, and makes nothing", async () => {
    const stateDir = join(folder, "untouched");
    const { code, output } = await bootstrap("--state-dir", stateDir);
    expect(code).toBe(0);
    expect(output).toMatch(/1\. keys[\s\S]*3 {2}aws_ecr_repository[\s\S]*1 {2}aws_db_instance/);
    expect(output).toContain("Nothing was created");
    expect(existsSync(stateDir)).toBe(false);
  });

  test("it shows new secrets of an installation that may exist", async () => {
    const { code, output } = await bootstrap("--secrets-version", "2");
    expect([code, output]).toEqual([0, expect.stringContaining("Nothing was created")]);
  });
});

describe("what is wrong is refused before anything is made", () => {
  const digest = `@sha256:${"a".repeat(64)}`;
  test.each([
    ["an account", ["--account", "12"], "twelve digits"],
    ["a region", ["--region", "mars-1"], "--region: one of"],
    ["a build that is not there", ["--apply", "--broker", "nowhere"], "no broker build"],
    ["a missing image", ["--image", `api=a${digest}`], "api=…, console=… and worker=…"],
    ["a gap of AWS itself", ["--without", "aws_kms_key"], "only for an emulator"],
    ["a version", ["--secrets-version", "0"], "a whole number from 1"],
  ])("%s", async (_, args, message) => {
    const { code, output } = await bootstrap("--state-dir", join(folder, "refused"), ...args);
    expect(code).toBe(2);
    expect(output).toContain(message);
    expect(output).not.toContain("    at ");
    expect(existsSync(join(folder, "refused"))).toBe(false);
  });

  test("a build for another machine", async () => {
    const broker = join(folder, "x86-64");
    const { code, output } = await bootstrap("--apply", "--broker", broker);
    expect(code).toBe(2);
    expect(output).toContain("not built for ARM64");
  });

  test("a build on a system that is newer than the instances'", async () => {
    const broker = join(folder, "newer-system");
    const { code, output } = await bootstrap("--apply", "--broker", broker);
    expect(code).toBe(2);
    expect(output).toContain("needs glibc 2.35, and Amazon Linux 2023 has 2.34");
  });
});

describe("aws:policy", () => {
  const DOMAIN = ["--link-domain", "link.millrace.example.com"];
  const tool = resolve(import.meta.dirname, "../../tools/policy.ts");
  const policies = (...args: string[]) =>
    promisify(execFile)(process.execPath, [tool, "--account", ACCOUNT, ...DOMAIN, ...args]);

  test("prints every document, and only what is asked for", async () => {
    const all = JSON.parse(
      (await policies("--cluster", "clu_1", "--organization", "org_1")).stdout,
    );
    expect(Object.keys(all)).toEqual([
      "provisioner-network",
      "provisioner-compute",
      "provisioner-storage",
      "provisioner-metadata",
      "provisioner-identity",
      "provisioner-boundary",
      "cluster-boundary",
      "session",
    ]);
    const role = `arn:aws:iam::${ACCOUNT}:role/millrace/mr-main-worker`;
    const trust = [
      "--principal",
      role,
      "--external-id",
      "millrace-1",
      "--only",
      "provisioner-trust",
    ];
    expect(JSON.parse((await policies(...trust)).stdout)).toMatchObject({
      Statement: [{ Condition: { StringEquals: { "sts:ExternalId": "millrace-1" } } }],
    });
  });

  test("asks for the external id of whom it is to trust", async () => {
    await expect(policies("--principal", "arn:aws:iam::1:role/a")).rejects.toThrow("--external-id");
    await expect(policies("--only", "nothing")).rejects.toThrow("--only: one of");
    await expect(policies("--cluster", "clu_1")).rejects.toThrow("--organization");
  });
});

describe("images", () => {
  test("run programs that are there, and those that the tasks run first", () => {
    const dockerfile = readFileSync(join(ROOT, "infra/images/Dockerfile"), "utf8");
    const programs = [...dockerfile.matchAll(/CMD \["node", (?:"--[^"]+", )?"([^"]+)"\]/g)].map(
      ([, file]) => file,
    );
    expect(programs).toEqual([
      "apps/api/src/main.ts",
      "apps/worker/src/main.ts",
      "apps/console/server.js",
    ]);
    const sources = [
      ...programs.slice(0, 2),
      "packages/db/tools/migrate.ts",
      "packages/provisioner/tools/first-account.ts",
    ];
    for (const file of sources) expect(existsSync(join(ROOT, String(file))), file).toBe(true);
    const providers = [...dockerfile.matchAll(/^ARG AWS_PROVIDER_VERSION=(.+)$/gm)];
    expect(new Set(providers.map(([, version]) => version))).toEqual(
      new Set([AWS_PROVIDER_VERSION]),
    );
    for (const target of ["api", "console", "worker", "broker"]) {
      expect(dockerfile).toMatch(new RegExp(`^FROM \\w+ AS ${target}$`, "m"));
    }
  });

  test("are made of what a digest names, so that a build tomorrow is the same", () => {
    const dockerfile = readFileSync(join(ROOT, "infra/images/Dockerfile"), "utf8");
    const named = new Map(
      [...dockerfile.matchAll(/^ARG (\w+_IMAGE)=(.+)$/gm)].map(([, name, image]) => [name, image]),
    );
    const stages = new Set([...dockerfile.matchAll(/ AS (\w+)$/gm)].map(([, stage]) => stage));
    for (const [, from = ""] of dockerfile.matchAll(/^FROM (\S+)/gm)) {
      if (stages.has(from) || from === "scratch") continue;
      expect(named.get(from.slice(2, -1)), from).toMatch(/@sha256:[0-9a-f]{64}$/);
    }
  });
});

describe.skipIf(!HAS_TERRAFORM || MOTO === "")("the foundation in an emulator", () => {
  let moto: ChildProcess;
  let endpoint: string;

  beforeAll(async () => {
    const port = await freePort();
    endpoint = `http://127.0.0.1:${port}`;
    moto = spawn(MOTO, ["-H", "127.0.0.1", "-p", String(port)], { stdio: "ignore" });
    for (let waited = 0; waited < START_SECONDS_MAX * 5; waited++) {
      if (
        await fetch(endpoint).then(
          () => true,
          () => false,
        )
      )
        return;
      await sleep(200);
    }
    throw new Error(`${MOTO} did not start on ${endpoint}`);
  }, 90_000);

  afterAll(async () => {
    const ended = once(moto, "exit");
    moto.kill("SIGTERM");
    await ended;
  });

  test("is not made in an account that the command line does not name", async () => {
    const other = "210987654321";
    const args = ["--apply", "--yes", "--broker", join(folder, "arm64"), "--endpoint", endpoint];
    args.push("--account", other, "--state-dir", join(folder, "wrong-account"));
    const { code, output } = await bootstrap(...args);
    expect(output).toContain(`AWS account ID not allowed: ${ACCOUNT}`);
    expect(output).not.toContain("Apply complete!");
    expect(code).toBe(2);
    const bucket = `${endpoint}/${BUCKET.replace(ACCOUNT, other)}`;
    expect((await fetch(bucket, { headers: SIGNED })).status).toBe(404);
  }, 300_000);

  test("is made once, keeps its state in its bucket, and tells how to go on", async () => {
    const broker = join(folder, "arm64");
    const stateDir = join(folder, "state");
    const sha256 = createHash("sha256").update(readFileSync(broker)).digest("hex");
    const args = ["--apply", "--yes", "--broker", broker, "--endpoint", endpoint];
    // The emulator takes the refusal of plain HTTP for a refusal of everything, and the provider
    // waits a minute for it to settle on a life cycle.
    args.push("--without", "aws_s3_bucket_policy");
    args.push("--without", "aws_s3_bucket_lifecycle_configuration");

    const first = await bootstrap(...args, "--state-dir", stateDir);
    expect(first.output).toContain("Apply complete!");
    expect(first.code).toBe(0);
    const pushes = first.output.split("\n").filter((line) => line.includes("docker buildx build"));
    expect(pushes).toHaveLength(3);
    // The repositories' tags are immutable: a release that has another's tag cannot be pushed.
    for (const push of pushes)
      expect(push).toMatch(/:\$\(git rev-parse --short=12 HEAD\) --push \.$/);
    const get = (key: string, headers: Record<string, string>) =>
      fetch(`${endpoint}/${BUCKET}/${key}`, { headers });
    const buildKey = `broker/${sha256}/millrace`;
    expect((await get(buildKey, {})).status).toBe(403);
    const build = await get(buildKey, SIGNED);
    expect(Buffer.from(await build.arrayBuffer())).toEqual(readFileSync(broker));
    const state = await get("control-plane/terraform.tfstate", SIGNED);
    expect(state.status).toBe(200);
    const text = await state.text();
    expect(JSON.parse(text).resources.length).toBeGreaterThan(10);
    const secrets = JSON.parse(readFileSync(join(stateDir, "secrets.json"), "utf8"));
    for (const secret of Object.values(secrets)) expect(text).not.toContain(secret);

    // Another machine knows nothing but the bucket's name, which follows from the account.
    const elsewhere = join(folder, "elsewhere");
    const second = await bootstrap(...args, "--existing", "--state-dir", elsewhere);
    expect(second.output).toContain("No changes.");
    expect(second.code).toBe(0);

    // Instances of clusters that have not changed since are told to fetch the earlier build.
    const newer = join(folder, "arm64-newer");
    const third = await bootstrap(...args, "--broker", newer, "--state-dir", stateDir);
    expect(third.output).toContain("Resources: 1 added, 0 changed, 0 destroyed.");
    expect(third.code).toBe(0);
    const newerKey = `broker/${createHash("sha256").update(readFileSync(newer)).digest("hex")}/millrace`;
    const bytesOf = async (key: string) =>
      Buffer.from(await (await get(key, SIGNED)).arrayBuffer());
    expect(await bytesOf(newerKey)).toEqual(readFileSync(newer));
    expect(await bytesOf(buildKey)).toEqual(readFileSync(broker));
    const back = await bootstrap(...args, "--state-dir", stateDir);
    expect(back.output).toContain("Resources: 1 added, 0 changed, 0 destroyed.");
    expect(back.code).toBe(0);
    expect(await bytesOf(newerKey)).toEqual(readFileSync(newer));
    expect(await bytesOf(buildKey)).toEqual(readFileSync(broker));

    // The whole cannot be applied here; its state says which version the secrets have.
    const known = {
      ...JSON.parse(text),
      outputs: { secrets_version: { value: 3, type: "number" } },
    };
    const put = await fetch(`${endpoint}/${BUCKET}/control-plane/terraform.tfstate`, {
      method: "PUT",
      headers: SIGNED,
      body: JSON.stringify(known),
    });
    expect(put.status).toBe(200);
    const whole = ["api", "console", "worker"].flatMap((name) => [
      "--image",
      `${name}=registry/${name}@sha256:${"a".repeat(64)}`,
    ]);
    whole.push("--domain", "millrace.example.com", "--allow", "198.51.100.0/24");
    whole.push("--ami", "ami-0123456789abcdef0");
    whole.push("--certificate", `arn:aws:acm:eu-central-1:${ACCOUNT}:certificate/1`);
    const lower = await bootstrap(
      ...args,
      ...whole,
      "--state-dir",
      stateDir,
      "--secrets-version",
      "2",
    );
    expect(lower.output).toContain("the installation has version 3; give 4");
    expect(lower.code).toBe(2);
  }, 1_200_000);
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}
