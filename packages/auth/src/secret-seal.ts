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

  /** `purpose` separates keys: what is sealed for one purpose cannot be opened for another. */
  constructor(installationSecret: string, purpose: string) {
    this.#key = Buffer.from(hkdfSync("sha256", installationSecret, SALT, purpose, KEY_BYTES));
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
    if (sealed[0] !== FORMAT || sealed.length < 1 + NONCE_BYTES + TAG_BYTES) return undefined;
    const nonce = sealed.subarray(1, 1 + NONCE_BYTES);
    const decipher = createDecipheriv("aes-256-gcm", this.#key, nonce, {
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
}
