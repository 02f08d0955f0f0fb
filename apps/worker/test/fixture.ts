import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Database, openDatabase, type TenantDatabase } from "@millrace/db";
import {
  type Cluster,
  type ClusterId,
  type ClusterPhase,
  type EnvironmentId,
  newId,
  type Operation,
  type OperationId,
  type OperationKind,
  type OrganizationId,
} from "@millrace/domain";
import { systemProcessTable } from "@millrace/provisioner";
import { setUp, type TestDatabase, withPostgres } from "@millrace/testkit";
import { afterEach } from "vitest";

const WORKER = join(import.meta.dirname, "worker-process.ts");
const PRODUCT = join(import.meta.dirname, "../src/main.ts");
const FAKE_BROKER = join(import.meta.dirname, "../../../packages/provisioner/test/fake-broker.mjs");
const table = systemProcessTable();
/** How long a test waits for what soon happens: far longer than it takes, even with every processor busy. */
export const BUSY_MS_MAX = 90_000;

export interface WorkerProcess {
  readonly child: ChildProcess;
  kill(): Promise<void>;
  stop(): Promise<void>;
}

/** A database, a state folder, and workers as processes; everything is gone after the tests. */
export class Installation {
  /** With the rights of API and worker, and the rows of the one tenant. */
  db!: Database & TenantDatabase;
  organizationId!: OrganizationId;
  environmentId!: EnvironmentId;
  home = "";
  #database: TestDatabase | undefined;
  readonly #workers = new Set<ChildProcess>();

  async open(): Promise<void> {
    this.#database = await withPostgres();
    this.organizationId = newId("org");
    const arranging = openDatabase({ url: this.#database.arrangeUrl });
    this.db = { ...arranging, ...arranging.tenant(this.organizationId) };
    const { organizations } = this.db;
    await organizations.create({ id: this.organizationId, name: "Tenant", slug: "tenant" });
    const environment = await organizations.ensureEnvironment(this.organizationId, "default");
    this.environmentId = environment.id;
    this.home = await mkdtemp(join(tmpdir(), "millrace-worker-"));
  }

  /** The database, as a gateway sees it. */
  get gatewayUrl(): string {
    return this.#database?.gatewayUrl ?? "";
  }

  async close(): Promise<void> {
    await this.killEverything();
    await this.db.close();
    await this.#database?.drop();
    await rm(this.home, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }

  async killEverything(): Promise<void> {
    for (const child of this.#workers) await killAndWait(child, "SIGKILL");
    for (const id of await this.#clusterIds()) this.killBrokers(id);
  }

  /** Returns once the worker runs its loops, or at once if the caller wants to kill it early. */
  async startWorker(
    options: {
      waitForStart?: boolean;
      stopBrokers?: boolean;
      crashAt?: string;
      /** How the program of a benchmark's load behaves. */
      perf?: string;
    } = {},
  ): Promise<WorkerProcess> {
    const child = spawn(process.execPath, [WORKER], {
      stdio: ["ignore", "pipe", "inherit"],
      env: {
        ...process.env,
        DATABASE_URL: this.#database?.workerUrl ?? "",
        MILLRACE_HOME: this.home,
        CRASH_AT: options.crashAt ?? "",
        FAKE_PERF: options.perf ?? "",
        MILLRACE_STOP_BROKERS_ON_EXIT: options.stopBrokers ? "1" : "0",
      },
    });
    this.#workers.add(child);
    child.once("exit", () => this.#workers.delete(child));
    if (options.waitForStart ?? true) {
      for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
        if (String(chunk).includes("worker-process: started")) break;
      }
    }
    child.stdout.resume();
    return {
      child,
      kill: () => killAndWait(child, "SIGKILL"),
      stop: () => killAndWait(child, "SIGTERM"),
    };
  }

  /** The shipped program; its default broker does not speak Kafka. */
  async startProduct(options: {
    stopBrokers: boolean;
    brokerBin?: string;
    /** On top of the rest. */
    env?: Readonly<Record<string, string>>;
  }): Promise<ChildProcess> {
    const child = spawn(process.execPath, [PRODUCT], {
      stdio: ["ignore", "pipe", "inherit"],
      env: {
        // The fake broker's shebang finds node on PATH.
        PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
        DATABASE_URL: this.#database?.workerUrl ?? "",
        MILLRACE_HOME: this.home,
        MILLRACE_BROKER_BIN: options.brokerBin ?? FAKE_BROKER,
        MILLRACE_STOP_BROKERS_ON_EXIT: options.stopBrokers ? "1" : "0",
        ...options.env,
      },
    });
    this.#workers.add(child);
    child.once("exit", () => this.#workers.delete(child));
    for await (const chunk of child.stdout.iterator({ destroyOnReturn: false }))
      if (String(chunk).includes("worker started")) break;
    child.stdout.resume();
    return child;
  }

  /** A worker that runs until it kills itself at that point. */
  async crashWorker(crashAt: string): Promise<void> {
    const { child } = await this.startWorker({ waitForStart: false, crashAt });
    const late = setTimeout(() => child.kill("SIGTERM"), BUSY_MS_MAX);
    await once(child, "exit");
    clearTimeout(late);
    if (child.signalCode !== "SIGKILL") throw new Error(`no worker came to ${crashAt}`);
  }

  async requestCluster(name: string): Promise<{ cluster: Cluster; operation: Operation }> {
    const { organizationId, environmentId } = this;
    return await this.db.transaction(async (tx) => {
      const cluster = await tx.clusters.create({
        organizationId,
        environmentId,
        name,
        region: "local",
        size: "dev",
        labels: {},
        conditions: [],
      });
      const operation = await tx.operations.create({
        organizationId,
        clusterId: cluster.id,
        kind: "cluster.create",
      });
      await tx.deliver(operation.id);
      return { cluster, operation };
    });
  }

  async requestDeletion(cluster: Cluster): Promise<Operation> {
    return await this.request(cluster, "cluster.delete", "DELETING");
  }

  /** Has an operation of this kind done; `phase` is the cluster's meanwhile, where it has one. */
  async request(cluster: Cluster, kind: OperationKind, phase?: ClusterPhase): Promise<Operation> {
    return await this.db.transaction(async (tx) => {
      const { organizationId, id: clusterId } = cluster;
      const operation = await tx.operations.create({ organizationId, clusterId, kind });
      if (phase) await tx.clusters.changePhase(cluster.id, { to: phase });
      await tx.deliver(operation.id);
      return operation;
    });
  }

  async operation(cluster: Cluster, id: OperationId): Promise<Operation> {
    const found = await this.db.operations.get(cluster.organizationId, id);
    if (!found) throw new Error(`there is no operation ${id}`);
    return found;
  }

  async waitForOperation(cluster: Cluster, id: OperationId, timeoutMs = BUSY_MS_MAX) {
    return await eventually(timeoutMs, `operation ${id} is done`, async () => {
      const operation = await this.operation(cluster, id);
      return operation.done ? operation : undefined;
    });
  }

  async waitForPhase(cluster: Cluster, phase: Cluster["phase"], timeoutMs = BUSY_MS_MAX) {
    return await eventually(timeoutMs, `cluster ${cluster.id} is ${phase}`, async () => {
      const now = await this.db.clusters.load(cluster.id);
      return now?.phase === phase ? now : undefined;
    });
  }

  /** Pids of every process that runs on this cluster's configuration. */
  brokersOf(clusterId: string): number[] {
    const config = join(this.home, "clusters", clusterId, "server.properties");
    return table.findByArguments(["broker", "--config", config]).map(({ pid }) => pid);
  }

  killBrokers(clusterId: string): void {
    for (const pid of this.brokersOf(clusterId)) process.kill(pid, "SIGKILL");
  }

  async #clusterIds(): Promise<ClusterId[]> {
    const phases = ["PROVISIONING", "RUNNING", "DEGRADED", "FAILED", "DELETING"] as const;
    return (await this.db.fleet.clusters.inPhases(phases)).map((cluster) => cluster.id);
  }
}

/** Read its fields inside tests only. */
export function installation(): Installation {
  const it = new Installation();
  setUp(async () => {
    await it.open();
    return () => it.close();
  });
  afterEach(() => it.killEverything());
  return it;
}

/** Polls until there is an answer. */
export async function eventually<T>(
  timeoutMs: number,
  what: string,
  look: () => Promise<T | undefined>,
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`not in time: ${what}`);
    await sleep(25);
  }
}

async function killAndWait(child: ChildProcess, signal: "SIGKILL" | "SIGTERM"): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill(signal);
  await once(child, "exit");
}
