import { createHash, randomBytes } from "node:crypto";

/** Begins every secret, so that scanners of leaked credentials and people recognise it. */
const PREFIX = "mrk_";
/** 256 random bits need no slow hash: nobody guesses them, salted or not. */
const SECRET_BYTES = 32;
/** Characters of the secret that lists show. */
const HINT_LENGTH = 10;
const SECRET = /^mrk_[A-Za-z0-9_-]{43}$/;

export interface ApiKeySecret {
  /** Shown once, never stored. */
  readonly secret: string;
  readonly hash: Uint8Array<ArrayBuffer>;
  readonly hint: string;
}

export function newApiKeySecret(): ApiKeySecret {
  const secret = `${PREFIX}${randomBytes(SECRET_BYTES).toString("base64url")}`;
  return { secret, hash: hashOf(secret), hint: `${secret.slice(0, HINT_LENGTH)}…` };
}

/** What the secret is stored and found by; undefined for anything that is no secret of ours. */
export function apiKeyHash(secret: string): Uint8Array<ArrayBuffer> | undefined {
  return SECRET.test(secret) ? hashOf(secret) : undefined;
}

function hashOf(secret: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(createHash("sha256").update(secret).digest());
}
