import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { BrokerHttp } from "@millrace/broker-admin";
import {
  type BenchmarkLoad,
  type BenchmarkReport,
  type BrokerExit,
  type BrokerSlot,
  type ClusterId,
  CONTROL_PLANE_USER,
} from "@millrace/domain";
import type { ChangePlan, PlanOptions, RunOptions, SweepReport } from "../change-plan.ts";
import {
  adminUrlOf,
  type BenchmarkOptions,
  type BrokerAccess,
  type ClusterDeployment,
  type ClusterDriver,
  type DriverCapabilities,
  type Observation,
  type Placement,
  ProvisionError,
  plaintextAddress,
  type StartOptions,
  type WaitOptions,
} from "../cluster-driver.ts";
import { type ControlLink, type LinkCredentials, linkedAdmin, linkHost } from "../control-link.ts";
import type { KafkaAddress } from "../kafka-address.ts";
import { isRecoveryPlanId } from "../recovery-plan.ts";
import { BrokerFiles, clusterIdsIn } from "./broker-files.ts";
import { boundLog, exitIn, logTail } from "./broker-log.ts";
import { BrokerProcess, type BrokerProgram } from "./broker-process.ts";
import { BrokerRecovery } from "./broker-recovery.ts";
import { CertificateAuthority } from "./certificate-authority.ts";
import { KeyedLock } from "./keyed-lock.ts";
import { type LocalState, localPlanId, needsRestart, planLocal, purposeOf } from "./local-plan.ts";
import { PerfProcess } from "./perf-process.ts";
import { allocatePorts, DEFAULT_PORTS, type PortRange } from "./ports.ts";
import { type ProcessTable, systemProcessTable } from "./process-table.ts";
import { ServerCertificates } from "./server-certificates.ts";

export interface LocalDriverOptions {
  /** State folder of the installation; clusters lie in `<home>/clusters`. Absolute. */
  readonly home: string;
  readonly program: BrokerProgram;
  readonly ports?: PortRange;
  readonly processTable?: ProcessTable;
  /** The gateways to which brokers connect; without them, new clusters get admin ports and are called there. */
  readonly link?: ControlLink | undefined;
  /** Needed to start brokers that connect to a gateway. */
  readonly linkCredentials?: LinkCredentials | undefined;
}

/** Recovering a full write-ahead log of the largest size takes most of this on a slow disk. */
const READY_TIMEOUT_MS = 60_000;
const READY_POLL_MS = 100;

/** Brokers as processes of this machine, one folder per cluster. */
export class LocalDriver implements ClusterDriver {
  readonly name = "local";
  readonly capabilities: DriverCapabilities = {
    startsBrokers: true,
    exclusive: true,
    observeIntervalMs: 0,
    absentMessage: "The cluster's data folder is missing.",
  };
  readonly #options: LocalDriverOptions;
  readonly #table: ProcessTable;
  /**
   * Changes of one cluster never overlap within this program. Private methods that change something expect their
   * caller to hold it.
   */
  readonly #lock = new KeyedLock();
  readonly #authority: CertificateAuthority;
  readonly #certificates: ServerCertificates;

  constructor(options: LocalDriverOptions) {
    this.#options = options;
    this.#authority = new CertificateAuthority(options.home);
    this.#certificates = new ServerCertificates(this.#authority);
    this.#table = options.processTable ?? systemProcessTable();
  }

  /** The root that clients of the brokers' TLS listeners trust, in PEM; undefined until a broker was started. */
  async rootCertificate(): Promise<string | undefined> {
    return await this.#authority.root();
  }

  /**
   * Makes sure that the gateway of this installation has a certificate, in `keys/gateway.pem`, that will not expire soon.
   */
  async ensureGatewayCertificate(): Promise<void> {
    const { link } = this.#options;
    if (link === undefined) return;
    await this.#lock.run(GATEWAY_LOCK, () =>
      this.#certificates.renew(this.#gatewayCertificate, linkHost(link)),
    );
  }

  async allocate(clusterId: string, taken: readonly Placement[]): Promise<Placement> {
    const { ports: range = DEFAULT_PORTS, link } = this.#options;
    return await allocatePorts(clusterId, { range, admin: link === undefined }, taken);
  }

  async prepare(deployment: ClusterDeployment, options: RunOptions = {}): Promise<void> {
    await this.#lock.run(deployment.clusterId, () => this.#write(deployment, options));
  }

  async isPrepared(deployment: ClusterDeployment): Promise<boolean> {
    return await this.#files(deployment.clusterId).isWritten(deployment);
  }

  async ensureRunning(deployment: ClusterDeployment, options: StartOptions = {}): Promise<void> {
    await this.#lock.run(deployment.clusterId, () => this.#start(deployment, options));
  }

  async waitReady(deployment: ClusterDeployment, options: WaitOptions = {}): Promise<void> {
    const files = this.#files(deployment.clusterId);
    const broker = this.#process(deployment.clusterId);
    const http = new BrokerHttp(await this.access(deployment));
    const timeoutMs = options.timeoutMs ?? READY_TIMEOUT_MS;
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      if (options.signal?.aborted) {
        throw new ProvisionError("aborted", "waiting for the broker was aborted");
      }
      // The process first: another program may answer on the broker's port.
      if (broker.find() === undefined) {
        const detail = await logTail(files.logFile);
        throw new ProvisionError("start_failed", "the broker's process ended", { detail });
      }
      if (await http.ready()) return;
      if (performance.now() >= deadline) {
        const detail = await logTail(files.logFile);
        const message = `the broker was not ready within ${timeoutMs} ms`;
        throw new ProvisionError("not_ready_in_time", message, { detail });
      }
      await sleep(READY_POLL_MS);
    }
  }

  async observe(deployment: ClusterDeployment): Promise<Observation> {
    const files = this.#files(deployment.clusterId);
    if (!(await files.exists())) return "absent";
    if (this.#process(deployment.clusterId).find() === undefined) return "stopped";
    return (await new BrokerHttp(await this.access(deployment)).ready()) ? "ready" : "starting";
  }

  async lastExit(clusterId: string): Promise<BrokerExit | undefined> {
    const files = this.#files(clusterId);
    if (this.#process(clusterId).find() !== undefined) return undefined;
    return exitIn(await logTail(files.logFile));
  }

  async access(deployment: ClusterDeployment): Promise<BrokerAccess> {
    return await localAccess(this.#options.home, this.#options.link)(deployment);
  }

  async stop(clusterId: string, options: WaitOptions = {}): Promise<void> {
    await this.#lock.run(clusterId, () => this.#process(clusterId).stop(options));
  }

  async destroy(clusterId: string, options: RunOptions = {}): Promise<void> {
    await this.#lock.run(clusterId, () => this.#destroy(clusterId, options));
  }

  async isDestroyed(clusterId: string): Promise<boolean> {
    const files = this.#files(clusterId);
    if (await files.exists()) return false;
    return this.#process(clusterId).find() === undefined;
  }

  async list(): Promise<readonly string[]> {
    return await clusterIdsIn(this.#options.home);
  }

  async maintain(deployment: ClusterDeployment): Promise<void> {
    const { clusterId, placement } = deployment;
    const files = this.#files(clusterId);
    await boundLog(files.logFile);
    await this.ensureGatewayCertificate();
    if (!hasTls(deployment)) return;
    await this.#lock.run(clusterId, async () => {
      // A folder that is gone stays gone.
      if (await files.isStartable()) await this.#certificates.renew(files, placement.host);
    });
  }

  async plan(deployment: ClusterDeployment, options: PlanOptions): Promise<ChangePlan> {
    if (options.purpose === "recover") {
      return await this.#recovery(deployment.clusterId).plan(options.signal);
    }
    const nothing: LocalState = { folder: false, properties: undefined, running: false };
    const state = options.offline ? nothing : await this.#stateOf(deployment.clusterId);
    const files = this.#files(deployment.clusterId);
    return planLocal(files, await files.withExistingWal(deployment), options.purpose, state);
  }

  /**
   * The plan's id identifies the target; applying it is idempotent, so nothing needs to be stored. The lock is held
   * throughout: a broker that was started between stop and start would run with the old configuration.
   */
  async apply(wanted: ClusterDeployment, planId: string, options: RunOptions = {}): Promise<void> {
    await this.#lock.run(wanted.clusterId, () => this.#apply(wanted, planId, options));
  }

  async drift(deployment: ClusterDeployment): Promise<ChangePlan> {
    return await this.plan(deployment, { purpose: "drift" });
  }

  /** Everything of a cluster is in its folder or found by its configuration's path. */
  async sweep(): Promise<SweepReport> {
    return { imported: [], removed: [], left: [] };
  }

  async runLoad(
    deployment: ClusterDeployment,
    load: BenchmarkLoad,
    options: BenchmarkOptions,
  ): Promise<BenchmarkReport> {
    const { kafka } = await this.access(deployment);
    const { perfFile } = this.#files(deployment.clusterId);
    return await this.#perf().run(load, { kafka: await kafka(), perfFile }, options);
  }

  async endLoad(topic: string): Promise<void> {
    await this.#perf().end(topic);
  }

  async #apply(wanted: ClusterDeployment, planId: string, options: RunOptions): Promise<void> {
    const { clusterId } = wanted;
    if (isRecoveryPlanId(planId)) {
      return await this.#recovery(clusterId).apply(planId, options.signal);
    }
    const files = this.#files(clusterId);
    const deployment = await files.withExistingWal(wanted);
    const purpose = purposeOf(planId);
    if (purpose === undefined || localPlanId(files, deployment, purpose) !== planId) {
      const message = `plan ${planId} is not for the current settings of cluster ${clusterId}`;
      throw new ProvisionError("plan_stale", message);
    }
    if (purpose === "purge") return await this.#destroy(clusterId, options);
    if (purpose !== "apply") return await this.#process(clusterId).stop(stopOptions(options));
    await this.#write(deployment, options);
    if (deployment.paused) await this.#process(clusterId).stop(stopOptions(options));
    else await this.#start(deployment);
  }

  /**
   * Stops a broker that has to restart for the new configuration. It stops before the file changes, because after a
   * crash the file tells whether a broker needs a restart, and after the new text is on disk, because a full disk
   * must not take a broker away.
   */
  async #write(wanted: ClusterDeployment, options: RunOptions): Promise<void> {
    const { clusterId } = wanted;
    const files = this.#files(clusterId);
    const deployment = await files.withExistingWal(wanted);
    await files.write(deployment, async () => {
      const restart = needsRestart(files, deployment, await this.#stateOf(clusterId));
      if (restart) await this.#process(clusterId).stop(stopOptions(options));
    });
  }

  async #start(deployment: ClusterDeployment, { asPrepared = false }: StartOptions = {}) {
    const { clusterId, placement } = deployment;
    const files = this.#files(clusterId);
    const broker = this.#process(clusterId);
    if (!(await files.isStartable())) throw notPrepared(clusterId);
    if (broker.find() !== undefined) return;
    if (!asPrepared) await files.refresh(deployment);
    if (hasTls(deployment)) await this.#certificates.ensure(files, placement.host);
    if (await files.hasLink()) await this.#issueLink(files, { clusterId, brokerId: 0 });
    await boundLog(files.logFile);
    await broker.start(this.#options.program);
  }

  /** A new credential for each start; the one before stays valid, in case that the file is not replaced. */
  async #issueLink(files: BrokerFiles, slot: LocalSlot): Promise<void> {
    const { linkCredentials } = this.#options;
    if (linkCredentials === undefined) {
      const message = "the broker's configuration has a control link, and this program no gateway";
      throw new ProvisionError("unconfigured", message);
    }
    await this.ensureGatewayCertificate();
    const credential = await linkCredentials.issue(slotOf(slot));
    const root = await this.#authority.root();
    if (root === undefined) throw new ProvisionError("config", "this installation has no CA");
    await files.writeLink(credential, root);
  }

  async #destroy(clusterId: string, { onDestroying }: RunOptions): Promise<void> {
    const files = this.#files(clusterId);
    const broker = this.#process(clusterId);
    await broker.stop();
    await onDestroying?.();
    await files.remove();
    this.#certificates.forget(files);
    await this.#options.linkCredentials?.revoke(clusterId as ClusterId);
    // Another worker may have started one meanwhile. Without a configuration none can start from now on.
    await broker.stop();
  }

  async #stateOf(clusterId: string): Promise<LocalState> {
    const files = this.#files(clusterId);
    return {
      folder: await files.exists(),
      properties: await files.readProperties(),
      running: this.#process(clusterId).find() !== undefined,
    };
  }

  #perf(): PerfProcess {
    return new PerfProcess({ ...this.#options, table: this.#table });
  }

  #recovery(clusterId: string): BrokerRecovery {
    return new BrokerRecovery(this.#files(clusterId), this.#options.program);
  }

  #process(clusterId: string): BrokerProcess {
    return new BrokerProcess(this.#files(clusterId), this.#table);
  }

  #files(clusterId: string): BrokerFiles {
    return new BrokerFiles(this.#options.home, clusterId, this.#options.link?.address);
  }

  get #gatewayCertificate() {
    const folder = join(this.#options.home, "keys");
    return { folder, certificateFile: join(folder, "gateway.pem") };
  }
}

/** No cluster has this id. */
const GATEWAY_LOCK = "gateway";

interface LocalSlot {
  readonly clusterId: string;
  readonly brokerId: number;
}

function slotOf({ clusterId, brokerId }: LocalSlot): BrokerSlot {
  return { clusterId: clusterId as ClusterId, brokerId };
}

/**
 * How to reach the brokers of the installation whose state folder is `home`, for programs that start
 * none: by the gateways of `link`, or at its admin port where the broker was prepared without a gateway. Throws
 * `ProvisionError` `not_prepared`, `unconfigured`.
 */
export function localAccess(home: string, link?: ControlLink): ClusterDriver["access"] {
  const kafkaOf = localKafka(home);
  return async (deployment) => {
    const { clusterId, placement } = deployment;
    const files = new BrokerFiles(home, clusterId);
    const adminToken = await files.readToken();
    if (adminToken === undefined) throw notPrepared(clusterId);
    const kafka = () => kafkaOf(deployment);
    if (link === undefined || !(await files.hasLink())) {
      return { kafka, adminUrl: adminUrlOf(placement), adminToken };
    }
    const slot = slotOf({ clusterId, brokerId: 0 });
    return { kafka, ...linkedAdmin(link, slot) };
  };
}

/**
 * How a benchmark's load connects to a broker: as the control plane's user where the broker has started
 * with it, and without TLS where the broker has an earlier version's configuration or no TLS listener.
 * Throws `ProvisionError` `not_prepared`, and `config` for a damaged CA.
 */
function localKafka(
  home: string,
): (deployment: Pick<ClusterDeployment, "clusterId" | "placement">) => Promise<KafkaAddress> {
  const authority = new CertificateAuthority(home);
  return async ({ clusterId, placement }) => {
    const { host, tlsPort } = placement;
    const files = new BrokerFiles(home, clusterId);
    if (tlsPort === undefined || !(await files.knowsControlPlane())) {
      return plaintextAddress(placement);
    }
    const [password, root] = await Promise.all([files.readToken(), authority.root()]);
    if (password === undefined) throw notPrepared(clusterId);
    // For Node, an empty root means the public ones. The CA is made with the first certificate.
    if (root === undefined) {
      throw new ProvisionError("not_prepared", "this installation has no CA yet");
    }
    return {
      bootstrapServers: `${host}:${tlsPort}`,
      signIn: { rootCertificate: root, user: CONTROL_PLANE_USER, password },
    };
  };
}

function hasTls({ placement }: ClusterDeployment): boolean {
  return placement.tlsPort !== undefined;
}

function stopOptions({ signal }: RunOptions): WaitOptions {
  return signal ? { signal } : {};
}

function notPrepared(clusterId: string): ProvisionError {
  return new ProvisionError("not_prepared", `cluster ${clusterId} has no configuration here`);
}
