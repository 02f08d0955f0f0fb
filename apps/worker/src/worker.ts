/**
 * Composes a worker from the parts that run operations, keep brokers alive and read their metrics. Several
 * workers can share one database; leases and conditional updates separate them. No essential state is in a
 * worker's memory: after a kill at any instant, the next worker continues from the database, the clusters'
 * folders and the process table.
 */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { BrokerHttp, smokeCheck as smokeCheckOf } from "@millrace/broker-admin";
import {
  applyTuning,
  type BrokerHttpAccess,
  brokerHttpBy,
  deploymentOf,
  LEASE_MS_DEFAULT,
  linkCredentialsIn,
  removeLeftTopics,
  runOperation,
  scheduleOperations,
  terraformStatesIn,
  verifyAuditChains,
  type WorkerTools,
} from "@millrace/core";
import { type Database, openDatabase } from "@millrace/db";
import { type Clock, systemClock } from "@millrace/domain";
import { keepPartitions } from "@millrace/metrics";
import type {
  ClusterDriver,
  ClusterDrivers,
  LinkCredentials,
  TerraformStates,
} from "@millrace/provisioner";
import type { Logger } from "pino";
import { BrokerScraper } from "./broker-scraper.ts";
import { ClusterSupervisor } from "./cluster-supervisor.ts";
import { OperationRunner } from "./operation-runner.ts";
import { OrphanSweeper } from "./orphan-sweeper.ts";
import { PeriodicTask } from "./periodic-task.ts";
import { TuningKeeper } from "./tuning-keeper.ts";

export interface WorkerOptions {
  readonly databaseUrl: string;
  /** Created after the database is open, which stores Terraform's states and brokers' credentials. */
  readonly drivers: (
    states: TerraformStates,
    linkCredentials: LinkCredentials,
  ) => Promise<ClusterDrivers>;
  readonly logger: Logger;
  readonly clock?: Clock;
  /** How long an operation stays with this worker after its death, in milliseconds. */
  readonly leaseMs?: number;
  readonly smokeCheck?: WorkerTools["smokeCheck"];
  readonly users?: WorkerTools["users"];
  readonly topics?: WorkerTools["topics"];
  /** Time between two drift checks at each cluster, in milliseconds. */
  readonly driftIntervalMs?: number;
  /** Ends the wait for the database at the start. */
  readonly signal?: AbortSignal;
}

export interface Worker {
  /**
   * Hands back operations, ends every loop and, if requested, drains and stops all brokers concurrently.
   * Returns when everything has ended.
   */
  stop(options: { stopBrokers: boolean }): Promise<void>;
}

const SUPERVISE_INTERVAL_MS = 1_000;
/** Two seconds show a burst; the scraper reads clusters that nobody looks at less often. */
export const SCRAPE_INTERVAL_MS = 2_000;
/** A broker that is back gets its tuning soon; costs one request per tuned cluster. */
const TUNING_INTERVAL_MS = 2_000;
/** Purges, drift checks and expired approvals are not urgent. */
const SCHEDULE_INTERVAL_MS = 10_000;
const DRIFT_INTERVAL_MS_DEFAULT = 6 * 60 * 60_000;
const ORPHAN_INTERVAL_MS = 60_000;
/** Each chain is verified once a day; this often the worker looks for those that are due. */
const AUDIT_INTERVAL_MS = 10 * 60_000;
const RETENTION_INTERVAL_MS = 10 * 60_000;
/** PostgreSQL may be starting at the same time as this program. */
const DATABASE_WAIT_MS = 30_000;
const DATABASE_POLL_MS = 250;

interface Parts {
  readonly db: Database;
  readonly drivers: ClusterDrivers;
  readonly deploymentOf: typeof deploymentOf;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Throws where the database does not answer in time or the options are wrong. */
export async function startWorker(options: WorkerOptions): Promise<Worker> {
  const { logger } = options;
  const db = openDatabase({
    url: options.databaseUrl,
    onError: (error) => logger.warn({ err: error }, "a database connection failed"),
  });
  try {
    await waitForDatabase(db, options.signal);
    await db.assertConfined();
    const drivers = await options.drivers(terraformStatesIn(db), linkCredentialsIn(db));
    const clock = options.clock ?? systemClock;
    const parts: Parts = { db, drivers, deploymentOf, clock, logger };
    const tools = workerTools(parts, options);
    const workerId = `${hostname()}:${process.pid}:${randomUUID()}`;
    const runner = operationRunner(workerId, tools, parts, options);
    await runner.start();
    await keepPartitions(db.fleet.metrics, clock.now());
    const scraper = new BrokerScraper({ ...parts, workerId });
    const keeper = tuningKeeper(parts);
    const supervisor = new ClusterSupervisor(parts);
    const regular = { scraper, keeper, supervisor, tools };
    const tasks = periodicTasks(parts, regular, options.driftIntervalMs);
    for (const task of tasks) task.start();
    logger.info("worker started");
    return {
      async stop({ stopBrokers }) {
        await Promise.all([runner.stop(), ...tasks.map((task) => task.stop())]);
        await Promise.all([scraper.close(), keeper.close(), supervisor.close()]);
        if (stopBrokers) await stopAllBrokers(parts.drivers.of("local"), logger);
        await parts.db.close();
        logger.info("worker stopped");
      },
    };
  } catch (error) {
    await db.close();
    throw error;
  }
}

function workerTools({ db, clock, drivers, logger }: Parts, options: WorkerOptions): WorkerTools {
  const {
    smokeCheck = (access) => smokeCheckOf(new BrokerHttp(access)),
    users = (access) => new BrokerHttp(access),
    topics = (access) => new BrokerHttp(access).topics,
  } = options;
  const storage: WorkerTools["storage"] = (access) => new BrokerHttp(access).storage();
  const brokerHttp = brokerHttpOf(drivers);
  return {
    db,
    clock,
    drivers,
    smokeCheck,
    users,
    topics,
    storage,
    log: logger,
    applyTuning: (tenant, cluster) => applyTuning({ db: tenant, brokerHttp }, cluster),
  };
}

function brokerHttpOf(drivers: Parts["drivers"]): BrokerHttpAccess {
  return brokerHttpBy(async (deployment) => drivers.of(deployment.region).access(deployment));
}

function operationRunner(
  workerId: string,
  tools: WorkerTools,
  { db, logger }: Parts,
  options: WorkerOptions,
): OperationRunner {
  const leaseMs = options.leaseMs ?? LEASE_MS_DEFAULT;
  return new OperationRunner({
    db,
    logger,
    runOperation: (id, signal) => runOperation(tools, id, { workerId, signal, leaseMs }),
  });
}

function tuningKeeper({ db, drivers, logger }: Parts): TuningKeeper {
  return new TuningKeeper({ db, logger, brokerHttp: brokerHttpOf(drivers) });
}

/** Starts work each round, and is closed when the worker stops. */
interface Regular {
  readonly scraper: BrokerScraper;
  readonly keeper: TuningKeeper;
  readonly supervisor: ClusterSupervisor;
  readonly tools: WorkerTools;
}

function periodicTasks(
  parts: Parts,
  { scraper, keeper, supervisor, tools }: Regular,
  driftIntervalMs = DRIFT_INTERVAL_MS_DEFAULT,
): PeriodicTask[] {
  const orphans = new OrphanSweeper(parts);
  const task = (
    name: string,
    intervalMs: number,
    run: (signal: AbortSignal) => Promise<unknown>,
  ): PeriodicTask =>
    new PeriodicTask({
      intervalMs,
      run: async (signal) => {
        await run(signal);
      },
      onError: (error) => parts.logger.error({ err: error, task: name }, "a task failed"),
    });
  return [
    task("supervise", SUPERVISE_INTERVAL_MS, (signal) => supervisor.runOnce(signal)),
    task("scrape", SCRAPE_INTERVAL_MS, () => scraper.runOnce()),
    task("tuning", TUNING_INTERVAL_MS, () => keeper.runOnce()),
    task("orphans", ORPHAN_INTERVAL_MS, (signal) => orphans.runOnce(signal)),
    task("schedule", SCHEDULE_INTERVAL_MS, () =>
      scheduleOperations({ ...parts, log: parts.logger }, { driftIntervalMs }),
    ),
    task("benchmark topics", SCHEDULE_INTERVAL_MS, () => removeLeftTopics(tools)),
    task("retention", RETENTION_INTERVAL_MS, () =>
      keepPartitions(parts.db.fleet.metrics, parts.clock.now()),
    ),
    task("audit chains", AUDIT_INTERVAL_MS, (signal) =>
      verifyAuditChains({ ...parts, log: parts.logger }, signal),
    ),
    task("idempotency keys", RETENTION_INTERVAL_MS, () =>
      parts.db.fleet.idempotency.deleteExpired(),
    ),
  ];
}

/** All brokers concurrently, so their time limits do not add up. A failure does not stop the others. */
export async function stopAllBrokers(driver: ClusterDriver, logger: Logger): Promise<void> {
  const ids = await driver.list();
  if (ids.length > 0) logger.info({ clusters: ids.length }, "stopping brokers");
  await Promise.all(
    ids.map(async (id) => {
      try {
        await driver.stop(id);
      } catch (error) {
        logger.error({ err: error, cluster: id }, "a broker did not stop");
      }
    }),
  );
}

async function waitForDatabase(db: Database, signal: AbortSignal | undefined): Promise<void> {
  const deadline = performance.now() + DATABASE_WAIT_MS;
  for (;;) {
    try {
      return await db.ping();
    } catch (error) {
      if (signal?.aborted || performance.now() >= deadline) {
        throw new Error("the database does not answer", { cause: error });
      }
    }
    await new Promise((resolve) => setTimeout(resolve, DATABASE_POLL_MS));
  }
}
