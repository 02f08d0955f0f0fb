import { PrismaPg } from "@prisma/adapter-pg";
import { ColumnTypeEnum, type SqlDriverAdapter } from "@prisma/driver-adapter-utils";
import type pg from "pg";

const CONNECT_TIMEOUT_MS = 10_000;
/** Parameters of a Prisma address that PostgreSQL's driver does not know. */
const PRISMA_PARAMETERS = [
  "schema",
  "connection_limit",
  "pool_timeout",
  "connect_timeout",
  "pgbouncer",
];

/** What the adapter has beyond its published type. */
interface PgAdapter extends SqlDriverAdapter {
  underlyingDriver(): pg.Pool;
  onError(error: unknown): never;
}

interface TypedField {
  dataTypeID: number;
  columnType?: number;
}

interface TypedResult {
  readonly fields: TypedField[];
}

/** Types of pg_catalog that the adapter cannot map: "char" (18) and name[] (1003), as what to take them. */
const STAND_INS: Readonly<Record<number, { oid: number; columnType: number }>> = {
  18: { oid: 25, columnType: ColumnTypeEnum.Character },
  1003: { oid: 1009, columnType: ColumnTypeEnum.TextArray },
};

const opened: SqlDriverAdapter[] = [];

/**
 * One session with the database at `url`, with two faults of adapter-pg 7.10 worked around: its
 * `executeScript` splits at every semicolon, also within a function's body, and it refuses two
 * types that introspection selects.
 */
export async function openSession(url: string): Promise<SqlDriverAdapter> {
  const address = new URL(url);
  const schema = address.searchParams.get("schema") ?? "public";
  for (const name of PRISMA_PARAMETERS) address.searchParams.delete(name);
  const factory = new PrismaPg(
    {
      connectionString: address.toString(),
      // The advisory lock, the search path and the migration must share one session.
      max: 1,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      ...(schema !== "public" && { options: `-c search_path="${schema}"` }),
    },
    { schema },
  );
  const adapter = (await factory.connect()) as unknown as PgAdapter;
  const query = adapter.underlyingDriver().query.bind(adapter.underlyingDriver());
  sendScriptsWhole(adapter, query);
  mapCatalogTypes(adapter, query);
  disposeOnce(adapter);
  opened.push(adapter);
  return adapter;
}

/** Ends every session that is still open. */
export async function closeSessions(): Promise<void> {
  await Promise.all(opened.map((session) => session.dispose().catch(() => {})));
}

type Query = (...args: unknown[]) => Promise<TypedResult>;

/** The simple protocol takes a whole script and does its own splitting. */
function sendScriptsWhole(adapter: PgAdapter, query: unknown): void {
  adapter.executeScript = async (script) => {
    try {
      await (query as Query)(script);
    } catch (error) {
      adapter.onError(error);
    }
  };
}

function mapCatalogTypes(adapter: PgAdapter, query: unknown): void {
  let last: TypedResult | undefined;
  const mapped: Query = async (...args) => {
    const result = await (query as Query)(...args);
    for (const field of Array.isArray(result?.fields) ? result.fields : []) {
      const standIn = STAND_INS[field.dataTypeID];
      if (!standIn) continue;
      field.dataTypeID = standIn.oid;
      field.columnType = standIn.columnType;
    }
    last = result;
    return result;
  };
  (adapter.underlyingDriver() as unknown as { query: Query }).query = mapped;
  const queryRaw = adapter.queryRaw.bind(adapter);
  adapter.queryRaw = async (input) => {
    const result = await queryRaw(input);
    for (const [index, field] of (last?.fields ?? []).entries()) {
      if (field.columnType !== undefined) result.columnTypes[index] = field.columnType as never;
    }
    return result;
  };
}

/** The engine disposes of a session that we also end at exit. */
function disposeOnce(adapter: PgAdapter): void {
  const dispose = adapter.dispose.bind(adapter);
  let disposed: Promise<void> | undefined;
  adapter.dispose = () => {
    disposed ??= dispose();
    return disposed;
  };
}
