import { join } from "node:path";
import {
  type BenchmarkLoad,
  type BenchmarkReport,
  BROKERS_PER_CLUSTER_MAX,
  type BrokerExit,
  brokerIdsOf,
  type ClusterId,
} from "@millrace/domain";
import type { ChangePlan, PlanOptions, RunOptions, SweepReport } from "../change-plan.ts";
import {
  type BenchmarkOptions,
  type BrokerAccess,
  type ClusterDeployment,
  type ClusterDriver,
  type DriverCapabilities,
  type Observation,
  type Placement,
  ProvisionError,
  type RestartOptions,
  type StartOptions,
  type WaitOptions,
} from "../cluster-driver.ts";
import { type ControlLink, type LinkCredentials, linkHost } from "../control-link.ts";
import { isRecoveryPlanId } from "../recovery-plan.ts";
import { BrokerFiles, noMetadataDatabases } from "./broker-files.ts";
import { boundLog } from "./broker-log.ts";
import type { BrokerProgram } from "./broker-process.ts";
import { BrokerRecovery } from "./broker-recovery.ts";
import { CertificateAuthority } from "./certificate-authority.ts";
import { ClusterFiles, clusterIdsIn } from "./cluster-files.ts";
import { KeyedLock } from "./keyed-lock.ts";
import { localAccess, notPrepared } from "./local-access.ts";
import { LocalBroker, stopOptions } from "./local-broker.ts";
import {
  type LocalState,
  type LocalTarget,
  localPlanId,
  planLocal,
  purposeOf,
} from "./local-plan.ts";
import type { MetadataDatabases } from "./metadata-databases.ts";
import { PerfProcess } from "./perf-process.ts";
import { allocatePorts, DEFAULT_PORTS, DEFAULT_PORTS_OF_SEVERAL, type PortRange } from "./ports.ts";
import { type ProcessTable, systemProcessTable } from "./process-table.ts";
import { ServerCertificates } from "./server-certificates.ts";
import { SeveralBrokers } from "./several-brokers.ts";

export interface LocalDriverOptions {
  /** State folder of the installation; clusters lie in `<home>/clusters`. Absolute. */
  readonly home: string;
  readonly program: BrokerProgram;
  readonly ports?: PortRange;
  /** Of clusters with several brokers. */
  readonly portsOfSeveral?: PortRange;
  readonly processTable?: ProcessTable;
  /** The gateways to which brokers connect; without them, new clusters get admin ports and are called there. */
  readonly link?: ControlLink | undefined;
  /** Needed to start brokers that connect to a gateway. */
  readonly linkCredentials?: LinkCredentials | undefined;
  /** Where clusters of several brokers have their metadata; without it, none can be made. */
  readonly metadata?: MetadataDatabases | undefined;
}

/** Brokers as processes of this machine, one folder per cluster. `SeveralBrokers` has what only several need. */
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

  async allocate(
    clusterId: string,
    taken: readonly Placement[],
    brokers: number,
  ): Promise<Placement> {
    const { ports, portsOfSeveral, link } = this.#options;
    const several = brokers > 1;
    const range = several ? (portsOfSeveral ?? DEFAULT_PORTS_OF_SEVERAL) : (ports ?? DEFAULT_PORTS);
    return await allocatePorts(clusterId, { range, several, admin: link === undefined }, taken);
  }

  async prepare(deployment: ClusterDeployment, options: RunOptions = {}): Promise<void> {
    await this.#lock.run(deployment.clusterId, async () => {
      const brokers = this.#brokersOf(deployment);
      await this.#prepareShared(deployment);
      for (const broker of brokers) {
        await this.#exclusively(broker, () => broker.write(deployment, options));
      }
    });
  }

  async isPrepared(deployment: ClusterDeployment): Promise<boolean> {
    const written = this.#brokersOf(deployment).map(({ files }) => files.isWritten(deployment));
    return (await Promise.all(written)).every(Boolean);
  }

  async ensureRunning(deployment: ClusterDeployment, options: StartOptions = {}): Promise<void> {
    const { brokerId, asPrepared } = options;
    for (const broker of this.#brokersOf(deployment)) {
      if (brokerId !== undefined && broker.id !== brokerId) continue;
      await this.#lock.run(lockOf(broker), () => broker.start(deployment, asPrepared));
    }
  }

  async waitReady(deployment: ClusterDeployment, options: WaitOptions = {}): Promise<void> {
    const [first, ...others] = this.#brokersOf(deployment);
    if (others.length > 0) {
      const several = this.#several(deployment);
      return await several.waitServing(this.#brokersOf(deployment), options);
    }
    await first?.waitReady(deployment, options);
  }

  async observe(deployment: ClusterDeployment, brokerId?: number): Promise<Observation> {
    if (brokerId !== undefined) {
      return await this.#broker(deployment.clusterId, brokerId).observe(deployment);
    }
    const wanted = this.#brokersOf(deployment).map((broker) => broker.observe(deployment));
    const surplus = (await this.#surplusOf(deployment)).some((broker) => broker.isRunning());
    return overall(await Promise.all(wanted), surplus);
  }

  async lastExit(clusterId: string, brokerId?: number): Promise<BrokerExit | undefined> {
    const [first] = await new ClusterFiles(this.#options.home, clusterId).brokerIds();
    return await this.#broker(clusterId, brokerId ?? first ?? 0).lastExit();
  }

  async access(deployment: ClusterDeployment, brokerId?: number): Promise<BrokerAccess> {
    return await localAccess(this.#options.home, this.#options.link)(deployment, brokerId);
  }

  async stop(clusterId: string, options: WaitOptions = {}): Promise<void> {
    // At the same time: each finds that no other broker can take its partitions, and does not wait for one.
    await Promise.all(
      (await this.#possibleBrokers(clusterId)).map((broker) =>
        this.#lock.run(lockOf(broker), () => broker.stop(options)),
      ),
    );
  }

  async restart(deployment: ClusterDeployment, options: RestartOptions = {}): Promise<void> {
    const { clusterId } = deployment;
    const all = this.#brokersOf(deployment);
    const chosen = all.filter(
      ({ id }) => options.brokerId === undefined || id === options.brokerId,
    );
    if (chosen.length === 0) throw notPrepared(clusterId);
    await this.#lock.run(clusterId, async () => {
      const [only, ...others] = all;
      if (others.length > 0) return await this.#several(deployment).restart(chosen, options);
      await only?.stop(stopOptions(options));
      await only?.start(deployment);
      await only?.waitReady(deployment, stopOptions(options));
    });
  }

  async destroy(clusterId: string, options: RunOptions = {}): Promise<void> {
    await this.#lock.run(clusterId, () => this.#destroy(clusterId, options));
  }

  async isDestroyed(clusterId: string): Promise<boolean> {
    if (await new ClusterFiles(this.#options.home, clusterId).exists()) return false;
    return (await this.#possibleBrokers(clusterId)).every((broker) => !broker.isRunning());
  }

  async list(): Promise<readonly string[]> {
    return await clusterIdsIn(this.#options.home);
  }

  async maintain(deployment: ClusterDeployment): Promise<void> {
    await this.ensureGatewayCertificate();
    for (const broker of this.#brokersOf(deployment)) {
      await boundLog(broker.files.logFile);
      await this.#lock.run(lockOf(broker), () => broker.maintain(deployment));
    }
  }

  async plan(deployment: ClusterDeployment, options: PlanOptions): Promise<ChangePlan> {
    if (options.purpose === "recover") {
      return await this.#recovery(deployment).plan(options.signal);
    }
    return planLocal(await this.#targetOf(deployment, options.offline), options.purpose);
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
    const { perfFile } = new ClusterFiles(this.#options.home, deployment.clusterId);
    return await this.#perf().run(load, { kafka: await kafka(), perfFile }, options);
  }

  async endLoad(topic: string): Promise<void> {
    await this.#perf().end(topic);
  }

  async #apply(deployment: ClusterDeployment, planId: string, options: RunOptions): Promise<void> {
    const { clusterId } = deployment;
    if (isRecoveryPlanId(planId)) {
      return await this.#recovery(deployment).apply(planId, options.signal);
    }
    const purpose = purposeOf(planId);
    const target = await this.#targetOf(deployment);
    if (purpose === undefined || localPlanId(target, purpose) !== planId) {
      const message = `plan ${planId} is not for the current settings of cluster ${clusterId}`;
      throw new ProvisionError("plan_stale", message);
    }
    if (purpose === "purge") return await this.#destroy(clusterId, options);
    if (purpose !== "apply") return await this.#stopAll(clusterId, options);
    await this.#prepareShared(deployment);
    const brokers = this.#brokersOf(deployment);
    if (deployment.paused) {
      for (const broker of brokers) {
        await this.#exclusively(broker, () => broker.write(deployment, options));
      }
      return await this.#stopAll(clusterId, options);
    }
    if (brokers.length > 1) return await this.#applyToSeveral(deployment, options);
    for (const broker of brokers) {
      await broker.write(deployment, options);
      await broker.start(deployment);
    }
  }

  async #applyToSeveral(deployment: ClusterDeployment, options: RunOptions): Promise<void> {
    const { clusterId } = deployment;
    const several = this.#several(deployment);
    await several.apply(options);
    // From the highest id down: what remains is always 1 to N.
    for (const broker of (await this.#surplusOf(deployment)).reverse()) {
      await several.retire(broker, options);
      await broker.files.cluster.removeBroker(broker.id);
      this.#certificates.forget(broker.files);
      await this.#options.linkCredentials?.revoke(clusterId as ClusterId, broker.id);
    }
  }

  /** What several brokers share, before the first of them is prepared. */
  async #prepareShared({ clusterId, brokers }: ClusterDeployment): Promise<void> {
    if (brokers === 1) return;
    const { home, metadata } = this.#options;
    if (metadata === undefined) throw noMetadataDatabases();
    const password = await new ClusterFiles(home, clusterId).ensureMetadataPassword();
    await metadata.ensure(clusterId, password);
  }

  /** For one broker, whoever changes the cluster holds its lock already. */
  async #exclusively(broker: LocalBroker, work: () => Promise<void>): Promise<void> {
    if (broker.id === 0) await work();
    else await this.#lock.run(lockOf(broker), work);
  }

  async #stopAll(clusterId: string, options: RunOptions): Promise<void> {
    const stops = (await this.#possibleBrokers(clusterId)).map((broker) =>
      this.#exclusively(broker, () => broker.stop(stopOptions(options))),
    );
    await Promise.all(stops);
  }

  /** A new credential for each start; the one before stays valid, in case that the file is not replaced. */
  async #issueLink(files: BrokerFiles, clusterId: ClusterId): Promise<void> {
    const { linkCredentials } = this.#options;
    if (linkCredentials === undefined) {
      const message = "the broker's configuration has a control link, and this program no gateway";
      throw new ProvisionError("unconfigured", message);
    }
    await this.ensureGatewayCertificate();
    const credential = await linkCredentials.issue({ clusterId, brokerId: files.brokerId });
    const root = await this.#authority.root();
    if (root === undefined) throw new ProvisionError("config", "this installation has no CA");
    await files.writeLink(credential, root);
  }

  async #destroy(clusterId: string, { onDestroying }: RunOptions): Promise<void> {
    const { home, metadata, linkCredentials } = this.#options;
    const cluster = new ClusterFiles(home, clusterId);
    const brokers = await this.#possibleBrokers(clusterId);
    await this.#stopAll(clusterId, {});
    await onDestroying?.();
    if (await cluster.sharesMetadata()) {
      if (metadata === undefined) throw noMetadataDatabases();
      for (const { id } of brokers) await cluster.removeProperties(id);
      await metadata.drop(clusterId);
    }
    await cluster.remove();
    for (const { files } of brokers) this.#certificates.forget(files);
    await linkCredentials?.revoke(clusterId as ClusterId);
    // Another worker may have started one meanwhile. Without a configuration none can start from now on.
    for (const broker of brokers) await this.#exclusively(broker, () => broker.stop());
  }

  async #targetOf(deployment: ClusterDeployment, offline = false): Promise<LocalTarget> {
    const { paused, clusterId } = deployment;
    const wanted = this.#brokersOf(deployment);
    const cluster = new ClusterFiles(this.#options.home, clusterId);
    if (offline) {
      const state: LocalState = { folder: false, properties: undefined, running: false };
      const brokers = wanted.map(({ files }) => ({ files, deployment, state }));
      const shared = { path: cluster.folder, folder: false, database: false };
      return { paused, brokers, surplus: [], shared: wanted.length > 1 ? shared : undefined };
    }
    const planned = (brokers: readonly LocalBroker[]) =>
      Promise.all(brokers.map((broker) => broker.planned(deployment)));
    const shared = {
      path: cluster.folder,
      folder: await cluster.exists(),
      database: await cluster.sharesMetadata(),
    };
    return {
      paused,
      brokers: await planned(wanted),
      surplus: await planned(await this.#surplusOf(deployment)),
      shared: wanted.length > 1 ? shared : undefined,
    };
  }

  #several(deployment: ClusterDeployment): SeveralBrokers {
    return new SeveralBrokers({
      deployment,
      brokers: this.#brokersOf(deployment),
      exclusively: (broker, work) => this.#exclusively(broker, work),
    });
  }

  #brokersOf(deployment: ClusterDeployment): LocalBroker[] {
    return brokerIdsOf(deployment).map((id) => this.#broker(deployment.clusterId, id));
  }

  /** Brokers of several that have a folder and are not wanted any more, by id. */
  async #surplusOf(deployment: ClusterDeployment): Promise<LocalBroker[]> {
    const { clusterId } = deployment;
    const wanted = brokerIdsOf(deployment);
    const found = await new ClusterFiles(this.#options.home, clusterId).brokerIds();
    return found.filter((id) => !wanted.includes(id)).map((id) => this.#broker(clusterId, id));
  }

  /** Every broker of which a file or a process may be there, whatever the deployment is. */
  async #possibleBrokers(clusterId: string): Promise<LocalBroker[]> {
    const cluster = new ClusterFiles(this.#options.home, clusterId);
    const isAlone = (await cluster.exists()) && (await cluster.brokerIds()).length === 0;
    const several = brokerIdsOf({ brokers: BROKERS_PER_CLUSTER_MAX });
    return [0, ...(isAlone ? [] : several)].map((id) => this.#broker(clusterId, id));
  }

  #broker(clusterId: string, brokerId: number): LocalBroker {
    const { home, link, metadata, program } = this.#options;
    const files = new BrokerFiles(home, clusterId, {
      brokerId,
      linkAddress: link?.address,
      metadataUrl: metadata && ((password) => metadata.urlOf(clusterId, password)),
    });
    return new LocalBroker(clusterId, files, {
      program,
      table: this.#table,
      certificates: this.#certificates,
      access: (deployment, id) => this.access(deployment, id),
      issueLink: (of, id) => this.#issueLink(of, id),
    });
  }

  #perf(): PerfProcess {
    return new PerfProcess({ ...this.#options, table: this.#table });
  }

  /** Throws `ProvisionError` `not_recoverable`. */
  #recovery({ clusterId, brokers }: ClusterDeployment): BrokerRecovery {
    if (brokers > 1) {
      const message =
        "several brokers have their metadata in PostgreSQL: restore its backup to bring it back";
      throw new ProvisionError("not_recoverable", message);
    }
    return new BrokerRecovery(this.#broker(clusterId, 0).files, this.#options.program);
  }

  get #gatewayCertificate() {
    const folder = join(this.#options.home, "keys");
    return { folder, certificateFile: join(folder, "gateway.pem") };
  }
}

/** No cluster has this id. */
const GATEWAY_LOCK = "gateway";

/** Changes of one broker do not overlap. That of a broker that is alone is its cluster's. */
function lockOf({ clusterId, id }: LocalBroker): string {
  return id === 0 ? clusterId : `${clusterId}/${id}`;
}

/** Of a cluster, from what each of its brokers is; `surplus`: whether one runs that is not wanted. */
function overall(brokers: readonly Observation[], surplus: boolean): Observation {
  const are = (...kinds: Observation[]) => brokers.every((each) => kinds.includes(each));
  if (are("absent") && !surplus) return "absent";
  if (are("absent", "stopped") && !surplus) return "stopped";
  if (are("ready")) return "ready";
  return are("ready", "starting") ? "starting" : "partial";
}
