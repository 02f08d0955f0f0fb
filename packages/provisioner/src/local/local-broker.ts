/** One broker of this machine: its files, its process, and how it is seen through its admin HTTP. */
import { setTimeout as sleep } from "node:timers/promises";
import { BrokerHttp } from "@millrace/broker-admin";
import { type BrokerExit, brokerName, type ClusterId, placementOf } from "@millrace/domain";
import type { RunOptions } from "../change-plan.ts";
import {
  type ClusterDeployment,
  type ClusterDriver,
  type Observation,
  ProvisionError,
  type WaitOptions,
} from "../cluster-driver.ts";
import type { BrokerFiles } from "./broker-files.ts";
import { boundLog, exitIn, logTail } from "./broker-log.ts";
import { BrokerProcess, type BrokerProgram } from "./broker-process.ts";
import { notPrepared } from "./local-access.ts";
import { type LocalState, needsRestart, type PlannedBroker } from "./local-plan.ts";
import type { ProcessTable } from "./process-table.ts";
import type { ServerCertificates } from "./server-certificates.ts";

export interface LocalBrokerTools {
  readonly program: BrokerProgram;
  readonly table: ProcessTable;
  readonly certificates: ServerCertificates;
  readonly access: ClusterDriver["access"];
  /** Gives the broker what it signs in to a gateway with. */
  readonly issueLink: (files: BrokerFiles, clusterId: ClusterId) => Promise<void>;
}

/** Recovering a full write-ahead log of the largest size takes most of this on a slow disk. */
export const READY_TIMEOUT_MS = 60_000;
const READY_POLL_MS = 100;
/** One of several gives its partitions away within 60 s, answers what is in flight, and uploads. */
const STOP_OF_SEVERAL_TIMEOUT_MS = 120_000;

/** Methods that change something expect their caller to hold the broker's lock. */
export class LocalBroker {
  readonly clusterId: string;
  readonly files: BrokerFiles;
  readonly #process: BrokerProcess;
  readonly #tools: LocalBrokerTools;

  constructor(clusterId: string, files: BrokerFiles, tools: LocalBrokerTools) {
    this.clusterId = clusterId;
    this.files = files;
    this.#process = new BrokerProcess(files, tools.table);
    this.#tools = tools;
  }

  get id(): number {
    return this.files.brokerId;
  }

  isRunning(): boolean {
    return this.#process.find() !== undefined;
  }

  async state(): Promise<LocalState> {
    return {
      folder: await this.files.exists(),
      properties: await this.files.readProperties(),
      running: this.isRunning(),
    };
  }

  /** How the deployment makes it, beside what is there. */
  async planned(wanted: ClusterDeployment): Promise<PlannedBroker> {
    const deployment = await this.files.withExistingWal(wanted);
    return { files: this.files, deployment, state: await this.state() };
  }

  async http(deployment: ClusterDeployment): Promise<BrokerHttp> {
    return new BrokerHttp(await this.#tools.access(deployment, this.id));
  }

  async observe(deployment: ClusterDeployment): Promise<Observation> {
    if (!(await this.files.exists())) return "absent";
    if (!this.isRunning()) return "stopped";
    return (await (await this.http(deployment)).ready()) ? "ready" : "starting";
  }

  /** Throws `ProvisionError` `start_failed` once the process ends, `not_ready_in_time`, `aborted`. */
  async waitReady(deployment: ClusterDeployment, options: WaitOptions = {}): Promise<void> {
    const http = await this.http(deployment);
    const timeoutMs = options.timeoutMs ?? READY_TIMEOUT_MS;
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      if (options.signal?.aborted) {
        throw new ProvisionError("aborted", "waiting for the broker was aborted");
      }
      // The process first: another program may answer on the broker's port.
      if (!this.isRunning()) {
        const process = this.id === 0 ? "the broker's process" : `the process of broker ${this.id}`;
        throw await this.#failure("start_failed", `${process} ended`);
      }
      if (await http.ready()) return;
      if (performance.now() >= deadline) {
        const message = `${brokerName(this.id)} was not ready within ${timeoutMs} ms`;
        throw await this.#failure("not_ready_in_time", message);
      }
      await sleep(READY_POLL_MS);
    }
  }

  async lastExit(): Promise<BrokerExit | undefined> {
    return this.isRunning() ? undefined : exitIn(await logTail(this.files.logFile));
  }

  /**
   * Stops a broker that has to restart for the new configuration. It stops before the file changes, because after a
   * crash the file tells whether a broker needs a restart, and after the new text is on disk, because a full disk
   * must not take a broker away.
   */
  async write(wanted: ClusterDeployment, options: RunOptions = {}): Promise<void> {
    const deployment = await this.files.withExistingWal(wanted);
    await this.files.write(deployment, async () => {
      if (needsRestart(await this.planned(deployment))) await this.stop(stopOptions(options));
    });
  }

  /** Starts it, or adopts the running one. With `asPrepared` it starts with the configuration on disk. */
  async start(deployment: ClusterDeployment, asPrepared = false): Promise<void> {
    const { files } = this;
    if (!(await files.isStartable())) throw notPrepared(this.clusterId);
    if (this.isRunning()) return;
    if (!asPrepared) await files.refresh(deployment);
    const { host, tlsPort } = placementOf(deployment.placement, this.id);
    if (tlsPort !== undefined) await this.#tools.certificates.ensure(files, host);
    if (await files.hasLink()) await this.#tools.issueLink(files, this.clusterId as ClusterId);
    await boundLog(files.logFile);
    await this.#process.start(this.#tools.program);
  }

  async stop(options: WaitOptions = {}): Promise<void> {
    const timeoutMs = this.id === 0 ? undefined : STOP_OF_SEVERAL_TIMEOUT_MS;
    await this.#process.stop({ ...(timeoutMs !== undefined && { timeoutMs }), ...options });
  }

  async maintain({ placement }: ClusterDeployment): Promise<void> {
    if (placement.tlsPort === undefined) return;
    // A folder that is gone stays gone.
    if (!(await this.files.isStartable())) return;
    await this.#tools.certificates.renew(this.files, placement.host);
  }

  async #failure(code: "start_failed" | "not_ready_in_time", message: string) {
    return new ProvisionError(code, message, { detail: await logTail(this.files.logFile) });
  }
}

export function stopOptions({ signal }: RunOptions): WaitOptions {
  return signal ? { signal } : {};
}
