/**
 * The installation's certificate authority (CA). It issues the certificates of brokers on this machine, and clients
 * trust its root.
 *
 * Key and root are one file of the state folder, `keys/ca.pem` (0600), so that neither exists without the other.
 * The key is not encrypted: the key that would encrypt it would be in the same folder.
 */
import { createPrivateKey, randomBytes, webcrypto, X509Certificate } from "node:crypto";
import { link, mkdir, readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Clock, systemClock } from "@millrace/domain";
import { ProvisionError } from "../cluster-driver.ts";
import { readIfThere, replaceFile } from "./state-file.ts";

/** Clients trust the root once and for all, so it outlives the installation's machines. */
const ROOT_DAYS = 3_650;
/** Short enough that renewal is routine. */
const SERVER_DAYS = 90;
/** Clients whose clock is slow accept a new certificate, too. */
const BACKDATED_MS = 60 * 60_000;
const DAY_MS = 24 * 60 * 60_000;
/** ECDSA with P-256: accepted by every TLS library that Kafka's clients use. */
const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

/** Names and addresses that a certificate is valid for. */
export interface SubjectNames {
  readonly dns: readonly string[];
  readonly ip: readonly string[];
}

export class CertificateAuthority {
  readonly #file: string;
  readonly #clock: Clock;

  /** `home` is the state folder of the installation. */
  constructor(home: string, clock: Clock = systemClock) {
    this.#file = join(home, "keys", "ca.pem");
    this.#clock = clock;
  }

  /** The root in PEM; undefined until the first certificate is issued. Throws `ProvisionError` `config`. */
  async root(): Promise<string | undefined> {
    const text = await readIfThere(this.#file);
    return text === undefined ? undefined : partsOf(text, this.#file).root.toString();
  }

  /** A certificate and its private key in PEM, for a TLS server. Creates the CA if there is none. */
  async issue(commonName: string, names: SubjectNames): Promise<string> {
    const { x509, subtle } = await library();
    const { root, key } = partsOf(await this.#open(), this.#file);
    const signingKey = await subtle.importKey("pkcs8", key, ALGORITHM, false, ["sign"]);
    const keys = await subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
    const issuer = new x509.X509Certificate(root.raw);
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: serialNumber(),
      subject: `CN=${commonName}`,
      issuer: issuer.subject,
      ...this.#validity(SERVER_DAYS),
      signingAlgorithm: ALGORITHM,
      publicKey: keys.publicKey,
      signingKey,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
        new x509.SubjectAlternativeNameExtension([
          ...names.dns.map((value) => ({ type: "dns", value }) as const),
          ...names.ip.map((value) => ({ type: "ip", value }) as const),
        ]),
        await x509.AuthorityKeyIdentifierExtension.create(issuer.publicKey),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ],
    });
    return `${certificate.toString("pem")}\n${await privateKeyPem(keys.privateKey)}`;
  }

  /**
   * Whether the text has a certificate of this CA, with its key, that is valid for all of these names for at least
   * that long.
   */
  async isCurrent(pem: string, names: SubjectNames, remainingMs: number): Promise<boolean> {
    const root = await this.root();
    if (root === undefined) return false;
    try {
      const certificate = new X509Certificate(pem);
      return (
        certificate.verify(new X509Certificate(root).publicKey) &&
        certificate.checkPrivateKey(createPrivateKey(pem)) &&
        names.dns.every((name) => certificate.checkHost(name) !== undefined) &&
        names.ip.every((ip) => certificate.checkIP(ip) !== undefined) &&
        Date.parse(certificate.validTo) - this.#clock.now().getTime() >= remainingMs
      );
    } catch {
      // A crash cannot truncate the file, but people can.
      return false;
    }
  }

  async #open(): Promise<string> {
    return (await readIfThere(this.#file)) ?? (await this.#create());
  }

  /** Programs that start concurrently must agree: the first one links its complete file into place. */
  async #create(): Promise<string> {
    await mkdir(dirname(this.#file), { recursive: true, mode: 0o700 });
    const made = `${this.#file}.${process.pid}.${randomBytes(4).toString("hex")}`;
    await replaceFile(made, await this.#newRoot());
    try {
      await link(made, this.#file);
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    } finally {
      await rm(made, { force: true });
    }
    return await readFile(this.#file, "utf8");
  }

  async #newRoot(): Promise<string> {
    const { x509, subtle } = await library();
    const keys = await subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
    const { keyCertSign, cRLSign } = x509.KeyUsageFlags;
    const certificate = await x509.X509CertificateGenerator.createSelfSigned({
      serialNumber: serialNumber(),
      // Trust stores list roots by name: those of two installations differ.
      name: `CN=Millrace CA ${randomBytes(4).toString("hex")}`,
      ...this.#validity(ROOT_DAYS),
      signingAlgorithm: ALGORITHM,
      keys,
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(keyCertSign | cRLSign, true),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ],
    });
    return `${certificate.toString("pem")}\n${await privateKeyPem(keys.privateKey)}`;
  }

  #validity(days: number): { notBefore: Date; notAfter: Date } {
    const now = this.#clock.now().getTime();
    return { notBefore: new Date(now - BACKDATED_MS), notAfter: new Date(now + days * DAY_MS) };
  }
}

/** Loaded with the first certificate: most starts need none. */
async function library() {
  // Its decorators need it, and nothing else does.
  await import("reflect-metadata");
  const x509 = await import("@peculiar/x509");
  return { x509, subtle: globalThis.crypto.subtle };
}

function partsOf(pem: string, file: string): { root: X509Certificate; key: Buffer<ArrayBuffer> } {
  try {
    const key = createPrivateKey(pem).export({ type: "pkcs8", format: "der" });
    return { root: new X509Certificate(pem), key: Buffer.from(key) };
  } catch (cause) {
    const message = `${file} does not hold the installation's CA: restore it from a backup`;
    throw new ProvisionError("config", message, { cause });
  }
}

/** 127 random bits, positive (RFC 5280, 4.1.2.2). */
function serialNumber(): string {
  const bytes = randomBytes(16);
  bytes.writeUInt8((bytes.readUInt8(0) & 0x7f) | 0x40);
  return bytes.toString("hex");
}

async function privateKeyPem(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", key));
  return createPrivateKey({ key: der, type: "pkcs8", format: "der" })
    .export({ type: "pkcs8", format: "pem" })
    .toString();
}
