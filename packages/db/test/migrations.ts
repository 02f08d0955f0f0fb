/** Databases as they were before a migration. */
import { randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import pg from "pg";

const MIGRATIONS = new URL("../../../migrations/control-plane/", import.meta.url);

/** Names of the migrations that came before this one, oldest first. */
export async function migrationsBefore(name: string): Promise<string[]> {
  const folders = await readdir(MIGRATIONS, { withFileTypes: true });
  const names = folders.filter((each) => each.isDirectory()).map((each) => each.name);
  return names.filter((each) => each < name).sort();
}

export async function sqlOf(name: string): Promise<string> {
  return readFile(new URL(`${name}/migration.sql`, MIGRATIONS), "utf8");
}

export async function stepsIn(client: pg.Client, id: string): Promise<[string, string][]> {
  const { rows } = await client.query(
    "SELECT name, state FROM operation_step WHERE operation_id = $1 ORDER BY position",
    [id],
  );
  return rows.map((row) => [row.name, row.state]);
}

export async function withEmptyDatabase(
  base: string,
  work: (client: pg.Client) => Promise<void>,
): Promise<void> {
  const name = `before_${randomBytes(6).toString("hex")}`;
  const admin = new pg.Client({ connectionString: base });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${name}`);
  const url = new URL(base);
  url.pathname = `/${name}`;
  const client = new pg.Client({ connectionString: url.toString() });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
    await admin.query(`DROP DATABASE ${name}`);
    await admin.end();
  }
}
