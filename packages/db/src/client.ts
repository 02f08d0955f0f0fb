import { PrismaPg } from "@prisma/adapter-pg";
import { Prisma, PrismaClient } from "./generated/client.ts";

/** What repositories speak to: the client itself, or a transaction of it. */
export type Client = Prisma.TransactionClient;

/** Connections per process; PostgreSQL's own default allows 100 in all. */
const POOL_CONNECTIONS_MAX = 16;
const CONNECT_TIMEOUT_MS = 10_000;
/** A transaction that holds locks for longer than this has a defect: fail it, free the rows. */
const TRANSACTION_TIMEOUT_MS = 15_000;
/** How long a transaction may wait for a connection of the pool under load. */
const TRANSACTION_WAIT_MS = 10_000;

export function createClient(url: string, connectionsMax = POOL_CONNECTIONS_MAX): PrismaClient {
  const adapter = new PrismaPg({
    connectionString: url,
    max: connectionsMax,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  return new PrismaClient({
    adapter,
    transactionOptions: { timeout: TRANSACTION_TIMEOUT_MS, maxWait: TRANSACTION_WAIT_MS },
  });
}

interface DriverCause {
  readonly kind?: string;
  readonly constraint?: { readonly index?: string; readonly fields?: readonly string[] };
}

/**
 * Whether `error` says that a unique rule of the schema was broken, and which: its name where the
 * driver knows it, else its columns joined by commas.
 */
export function brokenUniqueRule(error: unknown): string | undefined {
  if (!(error instanceof Prisma.PrismaClientKnownRequestError) || error.code !== "P2002") {
    return undefined;
  }
  const meta = error.meta as { driverAdapterError?: { cause?: DriverCause } } | undefined;
  const constraint = meta?.driverAdapterError?.cause?.constraint;
  return constraint?.index ?? constraint?.fields?.join(",") ?? "";
}

/** PostgreSQL's `unique_violation`. */
const UNIQUE_VIOLATION = "23505";

/** Whether a statement written by hand broke a unique rule: `brokenUniqueRule` is for the others. */
export function isUniqueViolation(error: unknown): boolean {
  return databaseCodeOf(error) === UNIQUE_VIOLATION;
}

/** PostgreSQL's own code of a failure, where there is one. */
function databaseCodeOf(error: unknown): string | undefined {
  if (!(error instanceof Prisma.PrismaClientKnownRequestError)) return undefined;
  const meta = error.meta as { driverAdapterError?: { cause?: { originalCode?: string } } };
  return meta?.driverAdapterError?.cause?.originalCode;
}
