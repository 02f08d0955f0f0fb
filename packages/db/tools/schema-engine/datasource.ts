import { randomUUID } from "node:crypto";
import type { SqlMigrationAwareDriverAdapterFactory } from "@prisma/driver-adapter-utils";
import { openSession } from "./session.ts";

/** Where the schema lives, as the CLI tells it. */
export interface Datasource {
  readonly url: string;
  readonly shadowDatabaseUrl?: string;
}

/** An error of the database in the CLI's terms; without a code where it has none for it. */
export interface KnownError {
  readonly code: string | undefined;
  readonly message: string;
}

/** The database's address with another database's name. */
function withDatabase(url: string, database: string): string {
  const address = new URL(url);
  address.pathname = `/${database}`;
  return address.toString();
}

export function databaseName({ url }: Datasource): string {
  return decodeURIComponent(new URL(url).pathname.slice(1)) || "postgres";
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Runs one statement on the server's own database: it works when ours does not exist. */
async function onServer({ url }: Datasource, sql: string): Promise<void> {
  const session = await openSession(withDatabase(url, "postgres"));
  try {
    await session.executeScript(sql);
  } finally {
    await session.dispose();
  }
}

export async function createDatabase(datasource: Datasource): Promise<void> {
  await onServer(datasource, `CREATE DATABASE ${quoted(databaseName(datasource))}`);
}

export async function dropDatabase(datasource: Datasource): Promise<void> {
  const name = quoted(databaseName(datasource));
  await onServer(datasource, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
}

export async function tryConnection({ url }: Datasource): Promise<void> {
  const session = await openSession(url);
  try {
    await session.executeScript("SELECT 1");
  } finally {
    await session.dispose();
  }
}

/** Opens the engine's sessions; a shadow database is made for one session and removed with it. */
export function sessionFactory(datasource: Datasource): SqlMigrationAwareDriverAdapterFactory {
  return {
    provider: "postgres",
    adapterName: "@prisma/adapter-pg",
    connect: () => openSession(datasource.url),
    async connectToShadowDb() {
      if (datasource.shadowDatabaseUrl) return openSession(datasource.shadowDatabaseUrl);
      const name = `prisma_migrate_shadow_db_${randomUUID()}`;
      await onServer(datasource, `CREATE DATABASE ${quoted(name)}`);
      const shadow = await openSession(withDatabase(datasource.url, name));
      const dispose = shadow.dispose.bind(shadow);
      shadow.dispose = async () => {
        await dispose();
        await onServer(datasource, `DROP DATABASE IF EXISTS ${quoted(name)} WITH (FORCE)`);
      };
      return shadow;
    },
  };
}

interface DriverError {
  readonly message?: string;
  readonly kind?: string;
  readonly cause?: { readonly kind?: string; readonly originalMessage?: string };
}

/** The CLI acts on some codes: it creates a database that does not exist, for one. */
export function toKnownError(error: unknown, datasource: Datasource): KnownError {
  const failure = error as DriverError | undefined;
  const message = String(failure?.cause?.originalMessage ?? failure?.message ?? error);
  const kind = failure?.cause?.kind ?? failure?.kind;
  const { hostname, port } = new URL(datasource.url);
  const server = `${hostname}:${port || "5432"}`;
  if (kind === "DatabaseDoesNotExist") {
    return { code: "P1003", message: `Database \`${databaseName(datasource)}\` does not exist` };
  }
  if (kind === "AuthenticationFailed") {
    return { code: "P1000", message: `Authentication failed against database server at ${server}` };
  }
  if (kind === "DatabaseNotReachable") {
    return { code: "P1001", message: `Can't reach database server at \`${server}\`` };
  }
  return { code: undefined, message };
}
