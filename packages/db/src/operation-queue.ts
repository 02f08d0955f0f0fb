import type { OperationId } from "@millrace/domain";
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
  readonly #boss: PgBoss;
  #started: Promise<unknown> | undefined;

  constructor(url: string, onError: (error: Error) => void) {
    this.#boss = new PgBoss({
      connectionString: url,
      schema: SCHEMA,
      max: CONNECTIONS_MAX,
      migrate: false,
      createSchema: false,
      schedule: false,
      superviseIntervalSeconds: SUPERVISE_INTERVAL_SECONDS,
    });
    this.#boss.on("error", onError);
  }

  /** Hands the operation over when `transaction` commits. */
  async send(operationId: OperationId, transaction: Client): Promise<void> {
    await this.#start();
    const data: Delivery = { operationId };
    await this.#boss.send(QUEUE, data, { db: fromPrisma(transaction) });
  }

  /** Calls `handler` for each delivered id; `concurrency` at a time. */
  async work(
    concurrency: number,
    handler: (id: OperationId, signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    await this.#start();
    await this.#boss.work<Delivery>(
      QUEUE,
      { batchSize: 1, pollingIntervalSeconds: 0.5, localConcurrency: concurrency },
      async ([job]) => {
        if (job) await handler(job.data.operationId, job.signal);
      },
    );
  }

  /** Takes no more deliveries and waits for running handlers, at most `timeoutMs`. */
  async stop(timeoutMs = 10_000): Promise<void> {
    if (this.#started === undefined) return;
    await this.#started;
    await this.#boss.stop({ graceful: true, timeout: timeoutMs });
  }

  #start(): Promise<unknown> {
    this.#started ??= this.#boss.start();
    return this.#started;
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
}
