/** A database, an emulator of AWS, a state folder and one worker process, that drills break. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { type Database, openDatabase, type TenantDatabase } from "@millrace/db";
import { newId, type OrganizationId } from "@millrace/domain";
import { type TestDatabase, tablesWith, withPostgres } from "@millrace/testkit";
import {
  type FakeGateway,
  startFakeGateway,
} from "../../../packages/provisioner/test/fake-gateway.ts";
import {
  ACCOUNT_ID,
  CONTROL_LINK,
  type Moto,
  program,
  startMoto,
} from "../../../packages/provisioner/test/moto.ts";

const WORKER = join(import.meta.dirname, "aws-worker-process.ts");

export class AwsSite {
  /** With the rights of API and worker, and the rows of the one tenant. */
  readonly db: Database & TenantDatabase;
  readonly organizationId: OrganizationId = newId("org");
  readonly home: string;
  readonly endpoint: string;
  readonly #database: TestDatabase;
  readonly #moto: Moto;
  readonly #gateway: FakeGateway;
  #worker: ChildProcess | undefined;

  private constructor(database: TestDatabase, moto: Moto, gateway: FakeGateway, home: string) {
    this.#database = database;
    this.#moto = moto;
    this.#gateway = gateway;
    this.endpoint = moto.endpoint;
    this.home = home;
    const arranging = openDatabase({ url: database.arrangeUrl });
    this.db = { ...arranging, ...arranging.tenant(this.organizationId) };
  }

  static async open(): Promise<AwsSite> {
    const database = await withPostgres();
    return new AwsSite(
      database,
      await startMoto({ patched: true }),
      await startFakeGateway(),
      await mkdtemp(join(tmpdir(), "millrace-site-")),
    );
  }

  async close(): Promise<void> {
    await this.killWorker();
    for (const pid of this.terraforms()) process.kill(pid, "SIGKILL");
    await this.db.close();
    await this.#moto.stop();
    await this.#gateway.stop();
    await this.#database.drop();
    await rm(this.home, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }

  /** `environment`: what the worker has beside the site's own. */
  async startWorker(environment: Readonly<Record<string, string>> = {}): Promise<void> {
    const child = spawn(process.execPath, [WORKER], {
      stdio: ["ignore", "pipe", "inherit"],
      env: {
        ...process.env,
        DATABASE_URL: this.#database.workerUrl,
        MILLRACE_HOME: this.home,
        MILLRACE_TERRAFORM_BIN: program.bin,
        MILLRACE_AWS_ROLE_ARN: `arn:aws:iam::${ACCOUNT_ID}:role/millrace-provisioner`,
        MILLRACE_AWS_EXTERNAL_ID: "a secret of the tests",
        MILLRACE_AWS_ARTEFACT_BUCKET: "artefacts",
        MILLRACE_AWS_BROKER_ARTEFACT: `millrace#${"a".repeat(64)}`,
        MILLRACE_AWS_AMI_ID: "ami-0123456789abcdef0",
        MILLRACE_AWS_PERMISSIONS_BOUNDARY_ARN: `arn:aws:iam::${ACCOUNT_ID}:policy/boundary`,
        MILLRACE_AWS_LINK_SERVICE: CONTROL_LINK.name,
        MILLRACE_AWS_LINK_DOMAIN: CONTROL_LINK.domain,
        MILLRACE_AWS_LINK_ZONES: CONTROL_LINK.zones.join(","),
        MILLRACE_GATEWAY_URL: this.#gateway.url,
        MILLRACE_GATEWAY_TOKEN: this.#gateway.token,
        MILLRACE_AWS_ENDPOINT: this.endpoint,
        AWS_ACCESS_KEY_ID: "test",
        AWS_SECRET_ACCESS_KEY: "test",
        LOG_LEVEL: process.env.DRILL_LOG_LEVEL ?? "fatal",
        ...environment,
      },
    });
    this.#worker = child;
    for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
      if (String(chunk).includes("aws-worker-process: started")) break;
    }
    child.stdout.resume();
  }

  /** Like the kernel's OOM killer. */
  async killWorker(): Promise<void> {
    await this.#endWorker("SIGKILL");
  }

  /** As ECS stops a task; returns the exit code. */
  async stopWorker(): Promise<number | null | undefined> {
    return await this.#endWorker("SIGTERM");
  }

  async #endWorker(signal: "SIGKILL" | "SIGTERM"): Promise<number | null | undefined> {
    const child = this.#worker;
    this.#worker = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return child?.exitCode;
    child.kill(signal);
    await once(child, "exit");
    return child.exitCode;
  }

  /** Pids of the Terraforms that work in this site's folder; their plugins end with them. */
  terraforms(): number[] {
    const program = "terraform";
    return readdirSync("/proc").flatMap((entry) => {
      if (!/^\d+$/.test(entry)) return [];
      try {
        const [command = "", folder = ""] = readFileSync(`/proc/${entry}/cmdline`, "utf8").split(
          "\0",
        );
        const here = folder.startsWith(`-chdir=${this.home}/`);
        return here && basename(command) === program ? [Number(entry)] : [];
      } catch {
        // It ended meanwhile.
        return [];
      }
    });
  }

  /** Tables that contain one of these texts in any column. */
  tablesWith(texts: readonly string[]): Promise<string[]> {
    return tablesWith(this.#database.url, texts);
  }

  /** The state file beside the cluster's stack. */
  stateFile(
    clusterId: string,
  ): { serial: number; lineage: string; resources: unknown[] } | undefined {
    const file = join(this.home, "terraform", clusterId, "terraform.tfstate");
    if (!existsSync(file)) return undefined;
    return JSON.parse(readFileSync(file, "utf8"));
  }
}
