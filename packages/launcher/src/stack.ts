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
  /** Ctrl-C. Returns the command lines of processes of this home that are still there. */
  stop(): Promise<string[]>;
}

const START_SECONDS_MAX = 300;
const STOP_SECONDS_MAX = 120;

/** @throws Error with the log's end where it does not come up. */
export async function startStack(): Promise<Stack> {
  const home = join(root, ".millrace-test");
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  const log = join(root, "test-results/npm-start.log");
  const sink = openSync(log, "w");
  const child = spawn(process.execPath, [join(root, "packages/launcher/src/start.ts")], {
    stdio: ["ignore", sink, sink],
    env: {
      ...process.env,
      MILLRACE_HOME: home,
      MILLRACE_API_PORT: String(await freePort()),
      MILLRACE_CONSOLE_PORT: String(await freePort()),
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
      child.kill("SIGINT");
      for (let waited = 0; child.exitCode === null && waited < STOP_SECONDS_MAX * 5; waited++) {
        await sleep(200);
      }
      return processesOf(home);
    },
  };
}

function processesOf(home: string): string[] {
  const all = execFileSync("ps", ["-eo", "pid=,args="], { encoding: "utf8" });
  return all.split("\n").filter((line) => line.includes(home) && !line.includes("ps -eo"));
}
