import type { OperationId } from "@millrace/domain";
import pg from "pg";
import { fromPrisma, PgBoss } from "pg-boss";
import type { Client } from "./client.ts";

const QUEUE = "operation";
const SCHEMA = "pgboss";
/** pg-boss's own pool; the queue sends one short statement at a time. */
const CONNECTIONS_MAX = 4;
/** Smallest that pg-boss takes: a job of a worker that died is delivered again after this long. */
const HEARTBEAT_SECONDS = 10;
const SUPERVISE_INTERVAL_SECONDS = 5;
/**
 * Deliveries of one operation after failed ones. A handler fails only where the journal could not
 * be written; the worker's sweep finds what is left after that.
 */
const RETRIES_MAX = 5;

interface Delivery {
  readonly operationId: OperationId;
}

/**
 * Delivers ids of operations to workers, at least once each. It carries no state: the operation's
 * row is the truth, and a delivery too many finds the operation claimed or done.
 */
export class OperationQueue {
  /** The API's: it may insert jobs, and nothing else. */
  readonly #sender: Boss;
  readonly #worker: Boss;

  constructor(url: string, onError: (error: Error) => void) {
    this.#sender = new Boss(url, onError, { supervise: false });
    this.#worker = new Boss(url, onError, { supervise: true });
  }

  /** Hands the operation over when `transaction` commits. */
  async send(operationId: OperationId, transaction: Client): Promise<void> {
    const boss = await this.#sender.started();
    const data: Delivery = { operationId };
    await boss.send(QUEUE, data, { db: fromPrisma(transaction) });
  }

  /** Calls `handler` for each delivered id; `concurrency` at a time. */
  async work(
    concurrency: number,
    handler: (id: OperationId, signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const boss = await this.#worker.started();
    await boss.work<Delivery>(
      QUEUE,
      { batchSize: 1, pollingIntervalSeconds: 0.5, localConcurrency: concurrency },
      async ([job]) => {
        if (job) await handler(job.data.operationId, job.signal);
      },
    );
  }

  /** Takes no more deliveries and waits for running handlers, at most `timeoutMs`. */
  async stop(timeoutMs = 10_000): Promise<void> {
    await Promise.all([this.#sender.stop(timeoutMs), this.#worker.stop(timeoutMs)]);
  }
}

/** A pg-boss that starts when it is needed. */
class Boss {
  readonly #boss: PgBoss;
  #starting: Promise<PgBoss> | undefined;

  constructor(
    url: string,
    onError: (error: Error) => void,
    { supervise }: { readonly supervise: boolean },
  ) {
    this.#boss = new PgBoss({
      connectionString: url,
      schema: SCHEMA,
      max: CONNECTIONS_MAX,
      migrate: false,
      createSchema: false,
      schedule: false,
      supervise,
      superviseIntervalSeconds: SUPERVISE_INTERVAL_SECONDS,
    });
    this.#boss.on("error", onError);
  }

  started(): Promise<PgBoss> {
    this.#starting ??= this.#boss.start();
    return this.#starting;
  }

  async stop(timeout: number): Promise<void> {
    if (this.#starting === undefined) return;
    await this.#starting;
    await this.#boss.stop({ graceful: true, timeout });
  }
}

/** Creates the queue's tables, or brings them to this version. */
export async function migrateQueue(url: string): Promise<void> {
  const boss = new PgBoss({
    connectionString: url,
    schema: SCHEMA,
    max: 1,
    supervise: false,
    schedule: false,
  });
  await boss.start();
  try {
    await boss.createQueue(QUEUE, {
      retryLimit: RETRIES_MAX,
      retryDelay: 1,
      heartbeatSeconds: HEARTBEAT_SECONDS,
    });
  } finally {
    await boss.stop({ graceful: false });
  }
  await grantQueue(url);
}

/** The API only sends. Jobs name operations and nothing else, so the queue's rows belong to no tenant. */
const GRANTS = `
  GRANT USAGE ON SCHEMA ${SCHEMA} TO millrace_api, millrace_worker;
  GRANT SELECT ON ${SCHEMA}.version, ${SCHEMA}.queue TO millrace_api;
  GRANT SELECT, INSERT ON ${SCHEMA}.job, ${SCHEMA}.job_common TO millrace_api;
  GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${SCHEMA} TO millrace_worker;`;

/** After each migration: a version of pg-boss may bring tables. */
async function grantQueue(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    // Two at once would change the same rows of the catalogue.
    await client.query("SELECT pg_advisory_lock(hashtextextended('queue grants', 0))");
    await client.query(GRANTS);
  } finally {
    await client.end();
  }
}
