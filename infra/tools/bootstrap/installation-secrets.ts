import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const FILE = "secrets.json";
const BYTES = 32;
const NAMES = [
  "database_password",
  "api_database_password",
  "worker_database_password",
  "gateway_database_password",
  "gateway_token",
  "session_secret",
  "external_id",
] as const;

/**
 * Values of the stack's ephemeral variables. They lie in a file of this account's user only until
 * the apply that brings them to AWS has ended: an apply that failed half-way gave the database a
 * password that the next one must repeat.
 */
export function installationSecrets(folder: string): Readonly<Record<string, string>> {
  const file = join(folder, FILE);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  // An earlier version may have left a file with fewer.
  const kept = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
  const secrets: Record<string, string> = {
    ...Object.fromEntries(NAMES.map((name) => [name, randomBytes(BYTES).toString("base64url")])),
    ...kept,
  };
  writeFileSync(file, JSON.stringify(secrets), { mode: 0o600 });
  return secrets;
}

/** After AWS has them. */
export function forgetInstallationSecrets(folder: string): void {
  rmSync(join(folder, FILE), { force: true });
}
