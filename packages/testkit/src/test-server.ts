import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type RunningPostgres, startPostgres } from "@millrace/launcher";
import pg from "pg";
import { childEnvironment } from "./env.ts";

/** A migrated, empty database that tests' databases are copied from. */
export const TEMPLATE_DATABASE = "millrace_template";

const MIGRATE = fileURLToPath(new URL("../../db/tools/migrate.ts", import.meta.url));
const MIGRATE_TIMEOUT_MS = 120_000;

export interface TestServer {
  /** `postgres://…/postgres` of a server that holds the template database. */
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts a PostgreSQL of our own in a temporary folder and migrates the template database. */
export async function startTestServer(): Promise<TestServer> {
  const dir = await mkdtemp(join(tmpdir(), "millrace-test-"));
  let server: RunningPostgres | undefined;
  const stop = async () => {
    await server?.stop();
    await rm(dir, { recursive: true, force: true });
  };
  try {
    server = await startPostgres({ dir: join(dir, "data"), disposable: true });
    await migrate(server.url, TEMPLATE_DATABASE);
    await makeArrangingRole(server.url);
    return { url: server.url, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Makes and migrates a database of the server, with the roles of API, worker and gateway. */
export async function migrate(serverUrl: string, database: string): Promise<void> {
  await promisify(execFile)(process.execPath, [MIGRATE], {
    timeout: MIGRATE_TIMEOUT_MS,
    env: childEnvironment({
      DATABASE_URL: databaseUrl(serverUrl, database),
      MILLRACE_API_DATABASE_URL: roleUrl(serverUrl, "millrace_api", database),
      MILLRACE_WORKER_DATABASE_URL: roleUrl(serverUrl, "millrace_worker", database),
      MILLRACE_GATEWAY_DATABASE_URL: roleUrl(serverUrl, "millrace_gateway", database),
    }),
  });
}

/** What API and worker may do together, for tests that arrange and look: row-level security binds it too. */
async function makeArrangingRole(serverUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  try {
    await client.query(
      "CREATE ROLE millrace_test LOGIN PASSWORD 'test' INHERIT IN ROLE millrace_api, millrace_worker",
    );
  } finally {
    await client.end();
  }
}

/** A database on the same server as one of the product's roles sees it. */
export function roleUrl(serverUrl: string, role: string, database: string): string {
  const url = new URL(databaseUrl(serverUrl, database));
  url.username = role;
  url.password = "test";
  return url.toString();
}

/** The address of another database on the same server. */
export function databaseUrl(serverUrl: string, database: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${database}`;
  return url.toString();
}
