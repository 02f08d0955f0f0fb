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
 */
import { randomBytes } from "node:crypto";
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { endpointsAt, INITIAL_CLUSTER_USER } from "@millrace/domain";
import { type ClusterDeployment, ProvisionError } from "../cluster-driver.ts";
import { isMissing, readIfThere, replaceFile } from "./state-file.ts";

/** An id becomes a folder name and so must not be able to leave its parent. */
const CLUSTER_ID = /^[A-Za-z0-9_-]{1,64}$/;
/** Secrets of a cluster: 32 random bytes in hexadecimal. */
const SECRET = /^[0-9a-f]{64}$/;
/** Where `renderProperties` writes the capacity of the log. */
const WAL_CAPACITY = /^s3\.wal\.path=.*[?&]capacity=(\d+)/m;
const AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
/** The cluster's first user. Every other user may do what its ACLs allow. */
const FIRST_USER = `User:${INITIAL_CLUSTER_USER}`;
/** Whoever reaches the plaintext listener, which is on loopback. */
const ANYBODY = "User:ANONYMOUS";
/** With it, the control plane signs in with the admin token (OPERATIONS.md, "Listeners of a broker"). */
const CONTROL_PLANE_SIGNS_IN = "admin.sasl.enabled=true";
/** A secret, so only the file has it: not the text that plans compare and show. */
const DELEGATION_KEY = "delegation.token.secret.key";
const DELEGATION_KEY_LINE = /^delegation\.token\.secret\.key=.*\n?/m;
/** A broker with it serves its admin HTTP at a gateway. */
const LINK_ADDRESS = "control.link.address";
/** Keys that only the driver may set. */
const RESERVED_KEYS: ReadonlySet<string> = new Set([
  "node.id",
  "cluster.id",
  "listeners",
  "advertised.listeners",
  "ssl.keystore.type",
  "ssl.keystore.location",
  "sasl.enabled.mechanisms",
  "authorizer.class.name",
  "super.users",
  "admin.listener",
  "admin.token.file",
  "admin.sasl.enabled",
  LINK_ADDRESS,
  "control.link.credential.file",
  "control.link.ca.file",
  DELEGATION_KEY,
  "data.dir",
  "s3.wal.path",
  "s3.data.buckets",
]);

export class BrokerFiles {
  readonly folder: string;
  /** `host:port` of the gateways; undefined where this installation has none. */
  readonly linkAddress: string | undefined;

  constructor(home: string, clusterId: string, linkAddress?: string) {
    if (!CLUSTER_ID.test(clusterId)) throw new Error(`not a cluster id: ${clusterId}`);
    this.folder = join(clustersFolder(home), clusterId);
    this.linkAddress = linkAddress;
  }

  get propertiesFile(): string {
    return join(this.folder, "server.properties");
  }
  get tokenFile(): string {
    return join(this.folder, "admin.token");
  }
  /** A new key invalidates all delegation tokens. */
  get delegationKeyFile(): string {
    return join(this.folder, "delegation.key");
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
  get perfFile(): string {
    return join(this.folder, "perf.properties");
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
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    for (const part of ["data", "wal", "objects"]) {
      await mkdir(join(this.folder, part), { recursive: true, mode: 0o700 });
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
    const text =
      wanted.placement.tlsPort !== undefined
        ? `${shown}${DELEGATION_KEY}=${await ensureSecret(this.delegationKeyFile)}\n`
        : shown;
    if ((await readIfThere(this.propertiesFile)) === text) await beforeReplacing?.();
    else await replaceFile(this.propertiesFile, text, beforeReplacing);
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
    return text?.replace(DELEGATION_KEY_LINE, "");
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

  /** Removes everything; the properties first, so that the rest cannot start after a crash. */
  async remove(): Promise<void> {
    await rm(this.propertiesFile, { force: true });
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
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

/** The secret in this file, which is made if there is none. */
async function ensureSecret(file: string): Promise<string> {
  const known = await readSecret(file);
  if (known !== undefined) return known;
  const made = randomBytes(32).toString("hex");
  await replaceFile(file, `${made}\n`);
  return made;
}

/** `undefined` if there is none, or a crash truncated it. */
async function readSecret(file: string): Promise<string | undefined> {
  const text = (await readIfThere(file))?.trim();
  return text !== undefined && SECRET.test(text) ? text : undefined;
}

/** Ids of all clusters that have a folder. */
export async function clusterIdsIn(home: string): Promise<string[]> {
  try {
    const entries = await readdir(clustersFolder(home), { withFileTypes: true });
    return entries
      .filter((entry) => entry.isDirectory() && CLUSTER_ID.test(entry.name))
      .map((entry) => entry.name)
      .sort();
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** The text of `server.properties`. Throws where a property cannot be written or is reserved. */
export function renderProperties(files: BrokerFiles, deployment: ClusterDeployment): string {
  const { host, adminPort } = deployment.placement;
  const adminListener = adminPort === undefined ? "none" : `${host}:${adminPort}`;
  const listeners = endpointsAt(deployment.placement, deployment)
    .map(({ protocol, bootstrapServers }) => `${protocol}://${bootstrapServers}`)
    .join(",");
  const fileUri = (part: string) => pathToFileURL(join(files.folder, part)).href;
  const own: Record<string, string> = {
    "node.id": "0",
    "cluster.id": deployment.clusterId,
    listeners,
    "advertised.listeners": listeners,
    ...(deployment.placement.tlsPort !== undefined && {
      "ssl.keystore.type": "PEM",
      "ssl.keystore.location": files.certificateFile,
      "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
      "authorizer.class.name": AUTHORIZER,
      "super.users": deployment.plaintextListener ? `${ANYBODY};${FIRST_USER}` : FIRST_USER,
      "admin.sasl.enabled": "true",
    }),
    "admin.listener": adminListener,
    "admin.token.file": files.tokenFile,
    ...(files.linkAddress !== undefined && {
      [LINK_ADDRESS]: files.linkAddress,
      "control.link.credential.file": files.linkCredentialFile,
      "control.link.ca.file": files.linkRootFile,
    }),
    "data.dir": join(files.folder, "data"),
    "s3.wal.path": `0@${fileUri("wal/wal")}?capacity=${deployment.walCapacityBytes}&iodepth=8&iops=3000`,
    "s3.data.buckets": `0@${fileUri("objects")}`,
  };
  for (const key of Object.keys(deployment.properties)) {
    if (RESERVED_KEYS.has(key)) throw new Error(`the property ${key} is set by the driver`);
  }
  const lines = Object.entries({ ...own, ...deployment.properties }).map(([key, value]) => {
    if (/[\r\n]/.test(value) || !/^[A-Za-z0-9._-]+$/.test(key)) {
      throw new ProvisionError("start_failed", `the property ${key} cannot be written to a file`);
    }
    // A backslash starts an escape in this format.
    return `${key}=${value.replaceAll("\\", "\\\\")}`;
  });
  return `# Written by Millrace; changes are overwritten.\n${lines.join("\n")}\n`;
}

function clustersFolder(home: string): string {
  return join(home, "clusters");
}
