/** The whole product on free ports and a state folder of its own, started as a user starts it. */
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, openSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "./postgres.ts";
import { root } from "./settings.ts";

/** A product that answers. */
export interface Stack {
  /** Its `MILLRACE_HOME`; `credentials.json` in it says where it listens. */
  home: string;
  /**
   * Signals only npm, the process in the foreground, twice, as a service manager and an impatient operator do. Returns what
   * went wrong: processes of this home that are still there, another exit code than 0, another order than ours.
   */
  stop(): Promise<string[]>;
}

const START_SECONDS_MAX = 300;
const STOP_SECONDS_MAX = 180;
/** Environments are long, and a busy machine has thousands of processes. */
const PS_BYTES_MAX = 64 * 1024 * 1024;
const LINE_CHARS_MAX = 300;
const STOP_ORDER = ["console", "api", "worker", "gateway", "PostgreSQL"];

/**
 * Several may run at once, each with a name.
 * @throws Error with the log's end where it does not come up.
 */
export async function startStack(name: string, brokerProgram: string): Promise<Stack> {
  const home = join(root, ".millrace-test", name);
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  const log = join(root, `test-results/npm-start-${name}.log`);
  const sink = openSync(log, "w");
  const child = spawn("npm", ["start"], {
    cwd: root,
    stdio: ["ignore", sink, sink],
    env: {
      ...process.env,
      MILLRACE_HOME: home,
      MILLRACE_BROKER_BIN: brokerProgram,
      // The suite has built both by now. `npm start` itself would build the broker for production.
      MILLRACE_SKIP_BUILD: "1",
      MILLRACE_API_PORT: String(await freePort()),
      MILLRACE_CONSOLE_PORT: String(await freePort()),
      MILLRACE_GATEWAY_PORT: String(await freePort()),
      MILLRACE_GATEWAY_INTERNAL_PORT: String(await freePort()),
    },
  });
  const credentials = join(home, "credentials.json");
  const end = () => readFileSync(log, "utf8").split("\n").slice(-30).join("\n");
  for (let waited = 0; !existsSync(credentials); waited++) {
    if (child.exitCode !== null) throw new Error(`npm start ended (${child.exitCode}):\n${end()}`);
    if (waited > START_SECONDS_MAX * 5) {
      child.kill("SIGINT");
      throw new Error(`npm start did not come up within ${START_SECONDS_MAX} s:\n${end()}`);
    }
    await sleep(200);
  }
  return {
    home,
    async stop() {
      child.kill("SIGTERM");
      child.kill("SIGINT");
      for (let waited = 0; child.exitCode === null && waited < STOP_SECONDS_MAX * 5; waited++) {
        await sleep(200);
      }
      const problems = processesOf(home);
      if (child.exitCode !== 0) problems.push(`npm start ended with ${child.exitCode}, not 0`);
      const order = stopOrder(readFileSync(log, "utf8"));
      if (order.join() !== STOP_ORDER.join()) problems.push(`stopped in the order ${order}`);
      return problems;
    },
  };
}

/** What was stopped, in the order of the log's lines. */
function stopOrder(log: string): string[] {
  return [...log.matchAll(/stopping (\S+) …/g)].map(([, name]) => name as string);
}

/** The processes that have the folder in their command line or environment, which what they start inherits. */
export function processesOf(home: string): string[] {
  const all = execFileSync("ps", ["axeww", "-o", "pid=,args="], {
    encoding: "utf8",
    maxBuffer: PS_BYTES_MAX,
  });
  return all
    .split("\n")
    .filter((line) => line.includes(home) && Number.parseInt(line, 10) !== process.pid)
    .filter((line) => !line.includes("ps axeww"))
    .map((line) => line.slice(0, LINE_CHARS_MAX));
}
