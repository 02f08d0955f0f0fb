/** One home, one supervisor: the lock on the state folder and what a killed supervisor left. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

interface Recorded {
  pid: number;
  /** The process's start time and command line as `ps` prints them: a pid alone may be reused. */
  identity: string;
  name: string;
}

const LEFTOVER_STOP_SECONDS_MAX = 60;

/** Another supervisor already serves this home. */
export class HomeInUse extends Error {
  readonly pid: number;
  constructor(pid: number) {
    super(`another npm start (pid ${pid}) is using this state folder`);
    this.pid = pid;
  }
}

/** The record of which processes belong to this home. */
export class Home {
  readonly #file: string;
  #recorded: Recorded[] = [];

  private constructor(dir: string) {
    this.#file = join(dir, "supervisor.json");
  }

  /**
   * Takes the home: refuses where its supervisor lives, ends what a killed one left.
   *
   * @throws HomeInUse
   */
  static async take(dir: string): Promise<Home> {
    const home = new Home(dir);
    for (const left of home.#read()) {
      if (identity(left.pid) !== left.identity) continue;
      if (left.name === "supervisor") throw new HomeInUse(left.pid);
    }
    // Newest first, as a stop goes. PostgreSQL is left to its own start, which ends it as it wants to
    // be ended: SIGTERM would wait for sessions that nobody closes.
    const leftovers = home.#read().filter(({ name }) => name !== "postgres");
    for (const left of leftovers.reverse()) await endLeftover(left);
    home.record("supervisor", process.pid);
    return home;
  }

  /** Notes a process, so that the next supervisor finds it if this one is killed. */
  record(name: string, pid: number | undefined): void {
    const seen = pid === undefined ? null : identity(pid);
    if (pid === undefined || seen === null) return;
    this.#recorded = [
      ...this.#recorded.filter((other) => other.name !== name),
      { pid, identity: seen, name },
    ];
    writeFileSync(this.#file, JSON.stringify(this.#recorded, null, 2), { mode: 0o600 });
  }

  /** Gives the home back after everything has stopped. */
  release(): void {
    rmSync(this.#file, { force: true });
  }

  #read(): Recorded[] {
    if (!existsSync(this.#file)) return [];
    try {
      return JSON.parse(readFileSync(this.#file, "utf8")) as Recorded[];
    } catch {
      return [];
    }
  }
}

/** True when something accepts connections on the port. */
export function portTaken(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

function identity(pid: number): string | null {
  try {
    const text = execFileSync("ps", ["-o", "lstart=,args=", "-p", String(pid)], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return text.trim() || null;
  } catch {
    return null;
  }
}

async function endLeftover(left: Recorded): Promise<void> {
  const lives = () => identity(left.pid) === left.identity;
  if (!lives()) return;
  process.kill(left.pid, "SIGTERM");
  for (let waited = 0; lives() && waited < LEFTOVER_STOP_SECONDS_MAX * 10; waited++)
    await sleep(100);
  if (lives()) process.kill(left.pid, "SIGKILL");
}
