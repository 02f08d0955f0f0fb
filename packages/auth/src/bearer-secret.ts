import { createHash, randomBytes } from "node:crypto";

/** 256 random bits need no slow hash: nobody guesses them, salted or not. */
const SECRET_BYTES = 32;

/**
 * Secrets that whoever has one may use, such as API keys. Each begins with `prefix`, so that people and scanners of
 * leaked credentials recognise it.
 */
export class BearerSecrets {
  readonly #prefix: string;
  readonly #pattern: RegExp;

  constructor(prefix: string) {
    this.#prefix = prefix;
    this.#pattern = new RegExp(`^${prefix}[A-Za-z0-9_-]{43}$`);
  }

  /** A new secret, to be shown once, and the hash that is stored. */
  create(): { readonly secret: string; readonly hash: Uint8Array<ArrayBuffer> } {
    const secret = `${this.#prefix}${randomBytes(SECRET_BYTES).toString("base64url")}`;
    return { secret, hash: hashOf(secret) };
  }

  /** What a secret is stored and found by; undefined for any other text. */
  hash(secret: string): Uint8Array<ArrayBuffer> | undefined {
    return this.#pattern.test(secret) ? hashOf(secret) : undefined;
  }
}

function hashOf(secret: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(createHash("sha256").update(secret).digest());
}
