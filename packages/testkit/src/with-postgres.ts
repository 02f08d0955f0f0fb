import { randomBytes } from "node:crypto";
import pg from "pg";
import { sharedServerUrl } from "./env.ts";
import { databaseUrl, startTestServer, TEMPLATE_DATABASE, type TestServer } from "./test-server.ts";

export interface TestDatabase {
  /** A migrated database with no rows in it, for this caller alone. */
  readonly url: string;
  /** Removes the database, whoever is still connected. */
  drop(): Promise<void>;
}

/**
 * A fresh migrated database on a real PostgreSQL: on the test run's server where there is one, else
 * on a server of its own. Call it in `beforeAll`, and `drop` in `afterAll`.
 */
export async function withPostgres(): Promise<TestDatabase> {
  const shared = sharedServerUrl();
  const own: TestServer | undefined = shared ? undefined : await startTestServer();
  const serverUrl = shared ?? own?.url ?? "";
  const name = `test_${randomBytes(8).toString("hex")}`;
  await execute(serverUrl, `CREATE DATABASE ${name} TEMPLATE ${TEMPLATE_DATABASE}`);
  return {
    url: databaseUrl(serverUrl, name),
    async drop() {
      if (own) await own.stop();
      else await execute(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    },
  };
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
