/** Where things are and which ports they take: the environment, parsed once. */
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of the clone, with a trailing slash. */
export const root = fileURLToPath(new URL("../../..", import.meta.url));

/** The settings of one `npm start`. */
export interface Settings {
  /** `MILLRACE_HOME`: all state. */
  home: string;
  /** `MILLRACE_API_PORT`. */
  apiPort: number;
  /** `MILLRACE_CONSOLE_PORT`. */
  consolePort: number;
  /** `MILLRACE_GATEWAY_PORT`: where brokers connect. */
  gatewayPort: number;
  /** `MILLRACE_GATEWAY_INTERNAL_PORT`: where API and worker call brokers. */
  gatewayInternalPort: number;
  apiUrl: string;
  consoleUrl: string;
}

/** Something that the person who ran the command must change: what is wrong, and what to do. */
export class Unusable extends Error {
  readonly remedy: string;
  constructor(problem: string, remedy: string) {
    super(problem);
    this.remedy = remedy;
  }
}

/** @throws Unusable */
export function readSettings(env: NodeJS.ProcessEnv): Settings {
  const home = resolve(env.MILLRACE_HOME ?? join(root, ".millrace"));
  const apiPort = port(env, "MILLRACE_API_PORT", 4000);
  const consolePort = port(env, "MILLRACE_CONSOLE_PORT", 3000);
  if (apiPort === consolePort) {
    throw new Unusable(
      `API and console cannot both use port ${apiPort}`,
      "set MILLRACE_API_PORT or MILLRACE_CONSOLE_PORT to another port",
    );
  }
  const gatewayPort = port(env, "MILLRACE_GATEWAY_PORT", 4100);
  const gatewayInternalPort = port(env, "MILLRACE_GATEWAY_INTERNAL_PORT", 4101);
  mkdirSync(join(home, "logs"), { recursive: true, mode: 0o700 });
  return {
    home,
    apiPort,
    consolePort,
    gatewayPort,
    gatewayInternalPort,
    apiUrl: `http://localhost:${apiPort}`,
    consoleUrl: `http://localhost:${consolePort}`,
  };
}

/** The secret that signs sessions: made once per home, so that sessions outlive a restart. */
export function sessionSecret(home: string): string {
  return ensureSecret(join(home, "session.secret"));
}

/** With it, whoever may read the state folder calls brokers at the gateway: they have no other address. */
export function gatewayToken(home: string): string {
  return ensureSecret(join(home, "gateway.token"));
}

function ensureSecret(file: string): string {
  if (!existsSync(file)) {
    writeFileSync(file, `${randomBytes(32).toString("base64url")}\n`, { mode: 0o600 });
  }
  return readFileSync(file, "utf8").trim();
}

/** The secrets that the session secret replaced, newest first: one per line in the file, here separated by commas. */
export function replacedSessionSecrets(home: string): string {
  const file = join(home, "session.secret.replaced");
  if (!existsSync(file)) return "";
  return readFileSync(file, "utf8").trim().split(/\s+/).join(",");
}

function port(env: NodeJS.ProcessEnv, name: string, usual: number): number {
  const text = env[name];
  if (text === undefined || text === "") return usual;
  const number = Number(text);
  if (Number.isInteger(number) && number > 0 && number < 65_536) return number;
  throw new Unusable(`${name} is "${text}"`, "set it to a port number from 1 to 65535");
}
