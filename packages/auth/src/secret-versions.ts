/** The installation's secrets as the identity library names them in what it seals: each by a number. */
import { hkdfSync } from "node:crypto";

const VERSION_BYTES = 4;
/** The library accepts numbers from 0 on. */
const VERSION_MASK = 0x7fff_ffff;

export interface SecretVersion {
  readonly version: number;
  readonly value: string;
}

/**
 * The secret in use, then those that it replaced. The number follows from the secret, so that it stays the same when a
 * replaced secret is no longer configured.
 */
export function secretVersions(secret: string, replaced: readonly string[]): SecretVersion[] {
  return [...new Set([secret, ...replaced])].map((value) => ({ version: versionOf(value), value }));
}

/** What a value sealed with the secret in use begins with. */
export function sealPrefix(secret: string): string {
  return `$ba$${versionOf(secret)}$`;
}

function versionOf(secret: string): number {
  const bytes = hkdfSync("sha256", secret, "", "millrace secret version", VERSION_BYTES);
  return Buffer.from(bytes).readUInt32BE() & VERSION_MASK;
}
