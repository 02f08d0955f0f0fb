import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { delimiter, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { migrateQueue } from "./operation-queue.ts";
import { enableRole } from "./roles.ts";

/** A migration that is cut off has to be resolved by hand, and one that converts readings takes minutes. */
const MIGRATE_TIMEOUT_MS = 1_800_000;

/** Of Prisma's error P1002, where another program migrates the database. */
const LOCK_TIMEOUT = "advisory lock";

/** How API, worker and gateway will connect: addresses with the passwords that their roles get. */
export interface RoleUrls {
  readonly api?: string | undefined;
  readonly worker?: string | undefined;
  readonly gateway?: string | undefined;
}

/**
 * Brings the database at `url` to this version: creates it if it does not exist, applies the
 * migrations that are missing, sets up the queue's tables, and lets the roles of `roles` connect. Safe to
 * run by two at once.
 *
 * @throws Error with Prisma's report where a migration fails; nothing of that one is applied.
 */
export async function migrate(url: string, roles: RoleUrls = {}): Promise<void> {
  await deploy(url, performance.now() + MIGRATE_TIMEOUT_MS);
  await migrateQueue(url);
  if (roles.api) await enableRole(url, roles.api, "millrace_api");
  if (roles.worker) await enableRole(url, roles.worker, "millrace_worker");
  if (roles.gateway) await enableRole(url, roles.gateway, "millrace_gateway");
}

async function deploy(url: string, until: number): Promise<void> {
  const cli = createRequire(import.meta.url).resolve("prisma/build/index.js");
  for (;;) {
    try {
      await promisify(execFile)(process.execPath, [cli, "migrate", "deploy"], {
        cwd: fileURLToPath(new URL("..", import.meta.url)),
        timeout: MIGRATE_TIMEOUT_MS,
        env: environment(url),
      });
      return;
    } catch (error) {
      const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
      const report = `${stdout}${stderr}`.trimEnd();
      // Prisma waits for its lock for ten seconds only, and whoever holds it may take longer.
      if (report.includes(LOCK_TIMEOUT) && performance.now() < until) continue;
      throw new Error(`the migration failed:\n${report}`, { cause: error });
    }
  }
}

/** The schema engine is a script that `node` runs: the same one that runs this program. */
function environment(url: string): NodeJS.ProcessEnv {
  // biome-ignore lint/style/noProcessEnv: a child process inherits the environment as a whole.
  const inherited = process.env;
  return {
    ...inherited,
    PATH: `${dirname(process.execPath)}${delimiter}${inherited.PATH ?? ""}`,
    DATABASE_URL: url,
    CHECKPOINT_DISABLE: "1",
  };
}
