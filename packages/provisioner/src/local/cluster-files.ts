/** The folder of a cluster on this machine, and what its brokers share. See broker-files.ts for all of it. */
import { randomBytes } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { isMissing, readIfThere, replaceFile } from "./state-file.ts";

/** An id becomes a folder name and so must not be able to leave its parent. */
const CLUSTER_ID = /^[A-Za-z0-9_-]{1,64}$/;
/** Secrets of a cluster: 32 random bytes in hexadecimal. */
const SECRET = /^[0-9a-f]{64}$/;
/** The folder of one of several brokers. */
const BROKER_FOLDER = /^broker-([1-9])$/;

export class ClusterFiles {
  readonly folder: string;

  constructor(home: string, clusterId: string) {
    if (!CLUSTER_ID.test(clusterId)) throw new Error(`not a cluster id: ${clusterId}`);
    this.folder = join(clustersFolder(home), clusterId);
  }

  get tokenFile(): string {
    return join(this.folder, "admin.token");
  }
  /** A new key invalidates all delegation tokens. */
  get delegationKeyFile(): string {
    return join(this.folder, "delegation.key");
  }
  get metadataPasswordFile(): string {
    return join(this.folder, "metadata.password");
  }
  get perfFile(): string {
    return join(this.folder, "perf.properties");
  }

  /** The cluster's only broker has the cluster's folder. */
  brokerFolder(brokerId: number): string {
    return brokerId === 0 ? this.folder : join(this.folder, `broker-${brokerId}`);
  }

  /** Ids of several brokers that have a folder; empty for a cluster of one. */
  async brokerIds(): Promise<number[]> {
    const entries = await this.#entries();
    return (entries ?? [])
      .flatMap((name) => BROKER_FOLDER.exec(name)?.[1] ?? [])
      .map(Number)
      .sort((a, b) => a - b);
  }

  async exists(): Promise<boolean> {
    return (await this.#entries()) !== undefined;
  }

  /** The password of the cluster's role in the metadata database, made with the folder where there is none. */
  async ensureMetadataPassword(): Promise<string> {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    return await ensureSecret(this.metadataPasswordFile);
  }

  /** Whether several brokers share metadata in a database, or will. */
  async sharesMetadata(): Promise<boolean> {
    return (await this.#entries())?.includes("metadata.password") ?? false;
  }

  /** Removes everything; configurations first, so that no broker can start after a crash. */
  async remove(): Promise<void> {
    for (const brokerId of [0, ...(await this.brokerIds())]) await this.removeProperties(brokerId);
    await removeFolder(this.folder);
  }

  /** From then on, the broker cannot start. */
  async removeProperties(brokerId: number): Promise<void> {
    await rm(join(this.brokerFolder(brokerId), "server.properties"), { force: true });
  }

  /** Removes one of several brokers. */
  async removeBroker(brokerId: number): Promise<void> {
    if (brokerId === 0) throw new Error("the folder of a broker that is alone is its cluster's");
    await this.removeProperties(brokerId);
    await removeFolder(this.brokerFolder(brokerId));
  }

  async #entries(): Promise<string[] | undefined> {
    try {
      return await readdir(this.folder);
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }
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

/** The secret in this file, which is made if there is none. */
export async function ensureSecret(file: string): Promise<string> {
  const known = await readSecret(file);
  if (known !== undefined) return known;
  const made = randomBytes(32).toString("hex");
  await replaceFile(file, `${made}\n`);
  return made;
}

/** `undefined` if there is none, or a crash truncated it. */
export async function readSecret(file: string): Promise<string | undefined> {
  const text = (await readIfThere(file))?.trim();
  return text !== undefined && SECRET.test(text) ? text : undefined;
}

async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
}

function clustersFolder(home: string): string {
  return join(home, "clusters");
}
