/**
 * Encrypts a Terraform state for a database that must not be able to read it.
 *
 * Each tenant has a data key, which encrypts the state (AES-256-GCM). The installation's key, a file or a KMS
 * key, wraps the data key. The ciphertext is bound to organization, cluster and version as authenticated data:
 * moved to another row, it cannot be decrypted.
 *
 *     ciphertext = format (1 byte, 1) ‖ nonce (12) ‖ sealed state ‖ tag (16)
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { link, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { DecryptCommand, EncryptCommand, KMSClient } from "@aws-sdk/client-kms";
import { ProvisionError } from "../cluster-driver.ts";
import { readIfThere, replaceFile } from "./terraform-program.ts";
import type { StoredState } from "./terraform-states.ts";

const FORMAT = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_BYTES = 32;
/** Cached data keys; a tenant beyond it costs another unwrap. */
const DATA_KEYS_MAX = 1_000;

/** The installation's key, which wraps data keys. */
export interface WrappingKey {
  /** Id of the key, so that a rotation knows what to rewrap. */
  readonly id: string;
  /** `context` is authenticated: unwrapping with another one fails. */
  wrap(dataKey: Uint8Array, context: string): Promise<Uint8Array>;
  unwrap(wrapped: Uint8Array, context: string): Promise<Uint8Array>;
}

/** A key of 32 bytes in memory; read from a file by `fileWrappingKey`. */
export class SymmetricWrappingKey implements WrappingKey {
  readonly id: string;
  readonly #key: Buffer;

  constructor(key: Uint8Array) {
    if (key.length !== KEY_BYTES) throw new Error(`a wrapping key has ${KEY_BYTES} bytes`);
    this.#key = Buffer.from(key);
    this.id = `file:${createHash("sha256").update(key).digest("hex").slice(0, 16)}`;
  }

  async wrap(dataKey: Uint8Array, context: string): Promise<Uint8Array> {
    return encrypt(this.#key, dataKey, context);
  }

  async unwrap(wrapped: Uint8Array, context: string): Promise<Uint8Array> {
    return decrypt(this.#key, wrapped, context);
  }
}

/** The key in `path` (hexadecimal, 0600); created if there is none. */
export async function fileWrappingKey(path: string): Promise<WrappingKey> {
  const text = (await readIfThere(path)) ?? (await newKeyFile(path));
  const key = text.toString("utf8").trim();
  if (!/^[0-9a-f]{64}$/.test(key)) {
    throw new ProvisionError("config", `${path} is no key: it holds 64 hexadecimal digits`);
  }
  return new SymmetricWrappingKey(Buffer.from(key, "hex"));
}

/** The keys that another one has replaced: every `*.key` in `folder`, which need not exist. */
export async function replacedWrappingKeys(folder: string): Promise<WrappingKey[]> {
  const files = await readdir(folder).catch(() => []);
  const keys = files.filter((name) => name.endsWith(".key")).sort();
  return await Promise.all(keys.map((name) => fileWrappingKey(join(folder, name))));
}

/**
 * Programs of one installation may start concurrently and must all use the same key. The first one links the
 * complete file into place, and the others read it.
 */
async function newKeyFile(path: string): Promise<Buffer> {
  const made = `${path}.${process.pid}.${randomBytes(4).toString("hex")}`;
  await replaceFile(made, `${randomBytes(KEY_BYTES).toString("hex")}\n`);
  try {
    await link(made, path);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  } finally {
    await rm(made, { force: true });
  }
  return await readFile(path);
}

/** The KMS key of that ARN, under the rights of this program. */
export function kmsWrappingKey(keyArn: string): WrappingKey {
  const [, region] = /^arn:aws[a-z-]*:kms:([a-z0-9-]+):\d{12}:key\/.+$/.exec(keyArn) ?? [];
  if (region === undefined) throw new ProvisionError("config", `${keyArn} is no ARN of a KMS key`);
  return new KmsWrappingKey(keyArn, new KMSClient({ region }));
}

/** A symmetric key of KMS. */
export class KmsWrappingKey implements WrappingKey {
  readonly id: string;
  readonly #keyArn: string;
  readonly #kms: Pick<KMSClient, "send">;

  constructor(keyArn: string, kms: Pick<KMSClient, "send">) {
    this.id = `kms:${keyArn}`;
    this.#keyArn = keyArn;
    this.#kms = kms;
  }

  async wrap(dataKey: Uint8Array, context: string): Promise<Uint8Array> {
    const command = new EncryptCommand({
      KeyId: this.#keyArn,
      Plaintext: dataKey,
      EncryptionContext: { context },
    });
    const { CiphertextBlob } = await this.#kms.send(command);
    return present(CiphertextBlob);
  }

  async unwrap(wrapped: Uint8Array, context: string): Promise<Uint8Array> {
    const command = new DecryptCommand({
      KeyId: this.#keyArn,
      CiphertextBlob: wrapped,
      EncryptionContext: { context },
    });
    const { Plaintext } = await this.#kms.send(command);
    return present(Plaintext);
  }
}

/** What identifies a sealed state, beside its keys. */
export type StateIdentity = Pick<
  StoredState,
  "organizationId" | "clusterId" | "version" | "serial" | "lineage"
>;

interface DataKey {
  readonly key: Uint8Array;
  readonly wrapped: Uint8Array;
}

/** Seals with the current key; opens with it or with one that it replaced. */
export class StateSeal {
  readonly #current: WrappingKey;
  readonly #keys: ReadonlyMap<string, WrappingKey>;
  readonly #dataKeys = new Map<string, DataKey>();

  constructor(current: WrappingKey, replaced: readonly WrappingKey[] = []) {
    this.#current = current;
    this.#keys = new Map([...replaced, current].map((key) => [key.id, key]));
  }

  async seal(identity: StateIdentity, plaintext: Uint8Array): Promise<StoredState> {
    const { key, wrapped } = await this.#dataKeyOf(identity.organizationId);
    const { organizationId, clusterId, version, serial, lineage } = identity;
    return {
      organizationId,
      clusterId,
      version,
      serial,
      lineage,
      ciphertext: encrypt(key, plaintext, bindingOf(identity)),
      wrappedKey: wrapped,
      keyId: this.#current.id,
    };
  }

  /** Throws `ProvisionError` `config` if the key is missing or the row was tampered with. */
  async open(state: StoredState): Promise<Uint8Array> {
    try {
      const key = await this.#unwrap(state);
      return decrypt(key, state.ciphertext, bindingOf(state));
    } catch (cause) {
      if (cause instanceof ProvisionError) throw cause;
      const message = `the stored Terraform state of ${state.clusterId} cannot be decrypted: it was encrypted with another key, or the row was changed`;
      throw new ProvisionError("config", message, { cause });
    }
  }

  /** The data key of `state`, wrapped by the current key; undefined if it is already. */
  async rewrapped(
    state: StoredState,
  ): Promise<Pick<StoredState, "wrappedKey" | "keyId"> | undefined> {
    if (state.keyId === this.#current.id) return undefined;
    const key = await this.#unwrap(state);
    const wrappedKey = await this.#current.wrap(key, contextOf(state.organizationId));
    return { wrappedKey, keyId: this.#current.id };
  }

  async #unwrap(state: StoredState): Promise<Uint8Array> {
    const wrapping = this.#keys.get(state.keyId);
    if (wrapping === undefined) {
      const message = `the Terraform state of ${state.clusterId} is sealed under ${state.keyId}, which this installation does not have`;
      throw new ProvisionError("config", message);
    }
    return await wrapping.unwrap(state.wrappedKey, contextOf(state.organizationId));
  }

  async #dataKeyOf(organizationId: string): Promise<DataKey> {
    const known = this.#dataKeys.get(organizationId);
    if (known) return known;
    const key = randomBytes(KEY_BYTES);
    const wrapped = await this.#current.wrap(key, contextOf(organizationId));
    const oldest = this.#dataKeys.keys().next();
    if (this.#dataKeys.size >= DATA_KEYS_MAX && !oldest.done) this.#dataKeys.delete(oldest.value);
    const made = { key, wrapped };
    this.#dataKeys.set(organizationId, made);
    return made;
  }
}

function contextOf(organizationId: string): string {
  return `millrace terraform state key of ${organizationId}`;
}

/** A list in JSON, so that no two identities have the same text. */
function bindingOf({ organizationId, clusterId, version, serial, lineage }: StateIdentity): string {
  return JSON.stringify([organizationId, clusterId, version, serial, lineage]);
}

function encrypt(key: Uint8Array, plaintext: Uint8Array, binding: string): Uint8Array {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  cipher.setAAD(Buffer.from(binding));
  const sealed = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  return Buffer.concat([Buffer.from([FORMAT]), nonce, sealed, cipher.getAuthTag()]);
}

function decrypt(key: Uint8Array, bytes: Uint8Array, binding: string): Uint8Array {
  const sealed = Buffer.from(bytes);
  if (sealed[0] !== FORMAT || sealed.length < 1 + NONCE_BYTES + TAG_BYTES) {
    throw new Error("not sealed in a format that is known");
  }
  const nonce = sealed.subarray(1, 1 + NONCE_BYTES);
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(binding));
  decipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES));
  const body = sealed.subarray(1 + NONCE_BYTES, sealed.length - TAG_BYTES);
  return Buffer.concat([decipher.update(body), decipher.final()]);
}

function present(bytes: Uint8Array | undefined): Uint8Array {
  if (bytes === undefined) throw new Error("KMS gave no bytes");
  return bytes;
}
