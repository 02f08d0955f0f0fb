/** The certificates of this machine's brokers: issued before the first start, renewed while they run. */
import { isIP } from "node:net";
import type { CertificateAuthority, SubjectNames } from "./certificate-authority.ts";
import { readIfThere, replaceFile } from "./state-file.ts";

/** Renewed this long before it expires: a third of its life, to survive a machine that is off for weeks. */
const RENEWAL_MS = 30 * 24 * 60 * 60_000;
/** Checking reads and parses two files, which each supervision of a cluster need not do. */
const CHECK_INTERVAL_MS = 60 * 60_000;

/** Where a server's certificate and key lie. */
export interface CertificatePlace {
  /** Identifies the server. */
  readonly folder: string;
  readonly certificateFile: string;
}

export class ServerCertificates {
  readonly #authority: CertificateAuthority;
  /** Monotonic milliseconds. */
  readonly #now: () => number;
  readonly #checkedAt = new Map<string, number>();

  constructor(authority: CertificateAuthority, now: () => number = () => performance.now()) {
    this.#authority = authority;
    this.#now = now;
  }

  /**
   * Makes sure that the cluster's file has a certificate for this host that will not expire soon. The broker
   * reads a replaced file by itself. Throws `ProvisionError` `config`.
   */
  async ensure(files: CertificatePlace, host: string): Promise<void> {
    // Also where it fails: the next round a second later would fail in the same way.
    this.#checkedAt.set(files.folder, this.#now());
    const names = namesOf(host);
    const pem = await readIfThere(files.certificateFile);
    if (pem !== undefined && (await this.#authority.isCurrent(pem, names, RENEWAL_MS))) return;
    const isNewRoot = (await this.#authority.root()) === undefined;
    await replaceFile(files.certificateFile, await this.#authority.issue(host, names));
    if (!isNewRoot) return;
    // If there was another one that was lost, no client accepts its certificates any more.
    this.#checkedAt.clear();
    this.#checkedAt.set(files.folder, this.#now());
  }

  /** `ensure`, once an hour for each cluster. */
  async renew(files: CertificatePlace, host: string): Promise<void> {
    const checkedAt = this.#checkedAt.get(files.folder);
    if (checkedAt !== undefined && this.#now() - checkedAt < CHECK_INTERVAL_MS) return;
    await this.ensure(files, host);
  }

  forget(files: CertificatePlace): void {
    this.#checkedAt.delete(files.folder);
  }
}

/** Clients on this machine may write either name. */
function namesOf(host: string): SubjectNames {
  if (host === "127.0.0.1") return { dns: ["localhost"], ip: [host] };
  return isIP(host) === 0 ? { dns: [host], ip: [] } : { dns: [], ip: [host] };
}
