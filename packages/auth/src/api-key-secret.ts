import { BearerSecrets } from "./bearer-secret.ts";

/** Characters of the secret that lists show. */
const HINT_LENGTH = 10;
const secrets = new BearerSecrets("mrk_");

export interface ApiKeySecret {
  /** Shown once, never stored. */
  readonly secret: string;
  readonly hash: Uint8Array<ArrayBuffer>;
  readonly hint: string;
}

export function newApiKeySecret(): ApiKeySecret {
  const { secret, hash } = secrets.create();
  return { secret, hash, hint: `${secret.slice(0, HINT_LENGTH)}…` };
}

/** What the secret is stored and found by; undefined for anything that is no API key's secret. */
export function apiKeyHash(secret: string): Uint8Array<ArrayBuffer> | undefined {
  return secrets.hash(secret);
}
