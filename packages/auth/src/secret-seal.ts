/**
 * Seals a tenant's secret that the product has to use again, such as a client secret: AES-256-GCM under a key
 * derived from the installation's secret (HKDF-SHA-256, RFC 5869). What it belongs to is authenticated: copied to
 * another row, a sealed secret cannot be opened.
 *
 *     sealed = format (1 byte, 1) ‖ nonce (12) ‖ ciphertext ‖ tag (16)
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

const FORMAT = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_BYTES = 32;
const SALT = "";

export class SecretSeal {
  readonly #key: Buffer;
  readonly #replacedKeys: readonly Buffer[];

  /**
   * `purpose` separates keys: what is sealed for one purpose cannot be opened for another. `replaced` are secrets that
   * the installation had before: what they sealed still opens.
   */
  constructor(installationSecret: string, purpose: string, replaced: readonly string[] = []) {
    const keyOf = (secret: string) =>
      Buffer.from(hkdfSync("sha256", secret, SALT, purpose, KEY_BYTES));
    this.#key = keyOf(installationSecret);
    this.#replacedKeys = replaced.map(keyOf);
  }

  seal(plaintext: string, owner: readonly string[]): Uint8Array<ArrayBuffer> {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce);
    cipher.setAAD(Buffer.from(JSON.stringify(owner)));
    const body = Buffer.concat([cipher.update(plaintext, "utf8"), cipher.final()]);
    return new Uint8Array(Buffer.concat([Buffer.from([FORMAT]), nonce, body, cipher.getAuthTag()]));
  }

  /** Undefined where it was sealed by another installation's secret, for another owner, or was changed. */
  open(sealed: Uint8Array, owner: readonly string[]): string | undefined {
    return openBy(this.#key, sealed, owner) ?? this.#openByReplaced(sealed, owner);
  }

  /** Sealed by the secret in use. Undefined where it is already, or where no secret opens it. */
  reseal(sealed: Uint8Array, owner: readonly string[]): Uint8Array<ArrayBuffer> | undefined {
    if (openBy(this.#key, sealed, owner) !== undefined) return undefined;
    const plaintext = this.#openByReplaced(sealed, owner);
    return plaintext === undefined ? undefined : this.seal(plaintext, owner);
  }

  #openByReplaced(sealed: Uint8Array, owner: readonly string[]): string | undefined {
    for (const key of this.#replacedKeys) {
      const plaintext = openBy(key, sealed, owner);
      if (plaintext !== undefined) return plaintext;
    }
    return undefined;
  }
}

function openBy(key: Buffer, sealed: Uint8Array, owner: readonly string[]): string | undefined {
  if (sealed[0] !== FORMAT || sealed.length < 1 + NONCE_BYTES + TAG_BYTES) return undefined;
  const nonce = sealed.subarray(1, 1 + NONCE_BYTES);
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(Buffer.from(JSON.stringify(owner)));
  decipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES));
  try {
    const body = sealed.subarray(1 + NONCE_BYTES, sealed.length - TAG_BYTES);
    return Buffer.concat([decipher.update(body), decipher.final()]).toString("utf8");
  } catch {
    return undefined;
  }
}
