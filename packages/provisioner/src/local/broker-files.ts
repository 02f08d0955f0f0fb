/**
 * The folder of one cluster on this machine:
 *
 *     <home>/clusters/<cluster id>/        0700
 *       server.properties                  0600  the broker's configuration
 *       admin.token                        0600  secret of its admin HTTP; the control plane's password
 *       delegation.key                     0600  secret that delegation tokens are made with
 *       link.credential                    0600  secret with which it signs in to a gateway
 *       link-ca.pem                        0600  root of the gateways' certificate
 *       server.pem                         0600  certificate and key of its TLS listener
 *       broker.pid                         0600  which process it is (see broker-process.ts)
 *       broker.log, broker.log.1           0600  its log (see broker-log.ts)
 *       perf.properties                    0600  how a benchmark's load signs in (see perf-process.ts)
 *       recovered                          0600  the recovery plan that was applied last
 *       data/                              metadata and the lock
 *       wal/                               the write-ahead log
 *       objects/                           the object store of a local cluster
 *
 * Of several brokers, each has a folder of its own, and they share what is not their own:
 *
 *     <home>/clusters/<cluster id>/        0700
 *       admin.token, delegation.key, perf.properties, objects/   as above
 *       metadata.password                  0600  secret of the cluster's role in the metadata database
 *       broker-1/ … broker-9/              0700  server.properties, data/, wal/ and the other files of each
 */
import { mkdir, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { type ClusterDeployment, ProvisionError } from "../cluster-driver.ts";
import {
  type BrokerPlaces,
  LINK_ADDRESS,
  renderProperties,
  withoutSecrets,
  withSecrets,
} from "./broker-properties.ts";
import { ClusterFiles, ensureSecret, readSecret } from "./cluster-files.ts";
import { isMissing, readIfThere, replaceFile } from "./state-file.ts";

/** Where `renderProperties` writes the capacity of the log. */
const WAL_CAPACITY = /^s3\.wal\.path=.*[?&]capacity=(\d+)/m;
/** With it, the control plane signs in with the admin token (OPERATIONS.md, "Listeners of a broker"). */
const CONTROL_PLANE_SIGNS_IN = "admin.sasl.enabled=true";

export interface BrokerFilesOptions {
  readonly linkAddress?: string | undefined;
  /** One of several brokers; 0, the cluster's only one, if absent. */
  readonly brokerId?: number | undefined;
  /** Address of the metadata that several brokers share, from its password. */
  readonly metadataUrl?: ((password: string) => string) | undefined;
}

export class BrokerFiles implements BrokerPlaces {
  readonly cluster: ClusterFiles;
  readonly brokerId: number;
  readonly folder: string;
  readonly linkAddress: string | undefined;
  readonly #metadataUrl: BrokerFilesOptions["metadataUrl"];

  constructor(home: string, clusterId: string, options: BrokerFilesOptions = {}) {
    this.cluster = new ClusterFiles(home, clusterId);
    this.brokerId = options.brokerId ?? 0;
    this.folder = this.cluster.brokerFolder(this.brokerId);
    this.linkAddress = options.linkAddress;
    this.#metadataUrl = options.metadataUrl;
  }

  get clusterFolder(): string {
    return this.cluster.folder;
  }
  get propertiesFile(): string {
    return join(this.folder, "server.properties");
  }
  get tokenFile(): string {
    return this.cluster.tokenFile;
  }
  get linkCredentialFile(): string {
    return join(this.folder, "link.credential");
  }
  get linkRootFile(): string {
    return join(this.folder, "link-ca.pem");
  }
  get certificateFile(): string {
    return join(this.folder, "server.pem");
  }
  get pidFile(): string {
    return join(this.folder, "broker.pid");
  }
  get recoveredFile(): string {
    return join(this.folder, "recovered");
  }
  get logFile(): string {
    return join(this.folder, "broker.log");
  }

  /**
   * Writes everything that a broker needs to start. `beforeReplacing` runs once all of it is on disk and before the
   * configuration is replaced; it also runs where the configuration stays the same.
   */
  async write(deployment: ClusterDeployment, beforeReplacing?: () => Promise<void>): Promise<void> {
    const { folder, clusterFolder } = this;
    const parts = [join(folder, "data"), join(folder, "wal"), join(clusterFolder, "objects")];
    for (const part of [clusterFolder, folder, ...parts]) {
      await mkdir(part, { recursive: true, mode: 0o700 });
    }
    await ensureSecret(this.tokenFile);
    await this.refresh(deployment, beforeReplacing);
  }

  /**
   * The deployment with the capacity of an existing write-ahead log: a log is formatted for its capacity, and a
   * broker does not open one of another capacity.
   */
  async withExistingWal(deployment: ClusterDeployment): Promise<ClusterDeployment> {
    if ((await stat(join(this.folder, "wal/wal")).catch(() => undefined)) === undefined) {
      return deployment;
    }
    const [, capacity] = WAL_CAPACITY.exec((await this.readProperties()) ?? "") ?? [];
    return capacity === undefined
      ? deployment
      : { ...deployment, walCapacityBytes: Number(capacity) };
  }

  /** Updates the configuration of a cluster that has a folder; never creates the folder. */
  async refresh(wanted: ClusterDeployment, beforeReplacing?: () => Promise<void>): Promise<void> {
    const shown = renderProperties(this, await this.withExistingWal(wanted));
    const text = withSecrets(shown, await this.#secrets(wanted));
    if ((await readIfThere(this.propertiesFile)) === text) await beforeReplacing?.();
    else await replaceFile(this.propertiesFile, text, beforeReplacing);
  }

  async #secrets({ placement }: ClusterDeployment) {
    const { delegationKeyFile, metadataPasswordFile } = this.cluster;
    return {
      ...(placement.tlsPort !== undefined && {
        delegationKey: await ensureSecret(delegationKeyFile),
      }),
      ...(this.brokerId > 0 && {
        metadataUrl: this.#urlWith(await ensureSecret(metadataPasswordFile)),
      }),
    };
  }

  #urlWith(password: string): string {
    if (this.#metadataUrl !== undefined) return this.#metadataUrl(password);
    throw noMetadataDatabases();
  }

  async isWritten(deployment: ClusterDeployment): Promise<boolean> {
    return (
      (await this.readToken()) !== undefined &&
      (await this.readProperties()) ===
        renderProperties(this, await this.withExistingWal(deployment))
    );
  }

  async isStartable(): Promise<boolean> {
    const token = await this.readToken();
    return token !== undefined && (await readIfThere(this.propertiesFile)) !== undefined;
  }

  /** Text of the configuration as it is on disk, without secrets. */
  async readProperties(): Promise<string | undefined> {
    const text = await readIfThere(this.propertiesFile);
    return text === undefined ? undefined : withoutSecrets(text);
  }

  /** Whether a broker with the configuration on disk knows the control plane's user. */
  async knowsControlPlane(): Promise<boolean> {
    const lines = (await this.readProperties())?.split("\n") ?? [];
    return lines.includes(CONTROL_PLANE_SIGNS_IN);
  }

  /** Whether a broker with the configuration on disk connects to a gateway. */
  async hasLink(): Promise<boolean> {
    const lines = (await this.readProperties())?.split("\n") ?? [];
    return lines.some((line) => line.startsWith(`${LINK_ADDRESS}=`));
  }

  /** What a broker signs in to a gateway with, and what it verifies it by. It reads both for each connection. */
  async writeLink(credential: string, root: string): Promise<void> {
    await replaceFile(this.linkRootFile, root);
    await replaceFile(this.linkCredentialFile, `${credential}\n`);
  }

  async hasMetadata(): Promise<boolean> {
    try {
      await stat(join(this.folder, "data/meta.db"));
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
  }

  /** Id of the recovery plan that was applied last. */
  async readRecovered(): Promise<string | undefined> {
    return await readIfThere(this.recoveredFile);
  }
  async writeRecovered(planId: string): Promise<void> {
    await replaceFile(this.recoveredFile, planId);
  }

  /** `undefined` if there is none, or a crash truncated it. */
  async readToken(): Promise<string | undefined> {
    return await readSecret(this.tokenFile);
  }

  async exists(): Promise<boolean> {
    try {
      await readdir(this.folder);
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
  }
}

/** Throw it where a cluster of several brokers is asked for, and no PostgreSQL is known. */
export function noMetadataDatabases(): ProvisionError {
  const message =
    "clusters of several brokers share their metadata in PostgreSQL: set MILLRACE_METADATA_DATABASE_URL for the worker";
  return new ProvisionError("unconfigured", message);
}
