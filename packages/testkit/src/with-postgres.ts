import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPostgres } from "@millrace/launcher";
import pg from "pg";
import { sharedServerUrl } from "./env.ts";
import {
  databaseUrl,
  roleUrl,
  startTestServer,
  TEMPLATE_DATABASE,
  type TestServer,
} from "./test-server.ts";

export interface TestDatabase {
  /** A migrated database with no rows in it, for this caller alone, as its owner sees it. */
  readonly url: string;
  /** The same, as the API sees it. */
  readonly apiUrl: string;
  /** The same, as the worker sees it. */
  readonly workerUrl: string;
  /** The same, as a gateway sees it. */
  readonly gatewayUrl: string;
  /** The same with the rights of both, to arrange and to look. Row-level security applies. */
  readonly arrangeUrl: string;
  /** Removes the database, whoever is still connected. */
  drop(): Promise<void>;
}

/**
 * A fresh migrated database on a real PostgreSQL: on the test run's server where there is one, else
 * on a server of its own. Call it in `setUp`, whose answer calls `drop`.
 */
export async function withPostgres(): Promise<TestDatabase> {
  const shared = sharedServerUrl();
  const own: TestServer | undefined = shared ? undefined : await startTestServer();
  const serverUrl = shared ?? own?.url ?? "";
  const name = `test_${randomBytes(8).toString("hex")}`;
  await execute(serverUrl, `CREATE DATABASE ${name} TEMPLATE ${TEMPLATE_DATABASE}`);
  return {
    url: databaseUrl(serverUrl, name),
    apiUrl: roleUrl(serverUrl, "millrace_api", name),
    workerUrl: roleUrl(serverUrl, "millrace_worker", name),
    gatewayUrl: roleUrl(serverUrl, "millrace_gateway", name),
    arrangeUrl: roleUrl(serverUrl, "millrace_test", name),
    async drop() {
      if (own) return own.stop();
      // PostgreSQL waits for connections that are closing. One that it ends throws in its client, whose pool has
      // let go of it by then and listens to no error.
      await execute(serverUrl, `DROP DATABASE IF EXISTS ${name}`).catch(() =>
        execute(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
      );
    },
  };
}

/** A server that nothing has been migrated on, in the rare case that roles of the server matter. */
export async function withEmptyServer(): Promise<{ url: string; stop(): Promise<void> }> {
  const dir = await mkdtemp(join(tmpdir(), "millrace-empty-"));
  const { url, stop } = await startPostgres({ dir: join(dir, "data"), disposable: true });
  return {
    url,
    async stop() {
      await stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Runs one statement, as the owner of the tables where `url` is theirs. */
export async function runSql(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

/** Keeps everybody else from writing to the table until the returned function is called; reading goes on. */
export async function lockTable(url: string, table: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`BEGIN; LOCK TABLE ${table} IN EXCLUSIVE MODE`);
  return () => client.end();
}

/** Every row of every table, as text: what a thief of the database reads. */
export async function everyRow(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const tables = await client.query<{ name: string }>(
      `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
       WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`,
    );
    const texts: string[] = [];
    for (const { name } of tables.rows) {
      const { rows } = await client.query<{ row: string }>(`SELECT t::text AS row FROM ${name} t`);
      texts.push(`${name}:`, ...rows.map(({ row }) => row));
    }
    return texts.join("\n");
  } finally {
    await client.end();
  }
}

async function execute(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    // Two test files copy the template at the same time: PostgreSQL refuses the second while the
    // first is at it, so they take turns.
    await client.query("SELECT pg_advisory_lock(4201)");
    await client.query(sql);
  } finally {
    await client.end();
  }
}
