import { LocalDriver } from "@millrace/provisioner";
import { pino } from "pino";
import { readEnv, type WorkerEnv } from "./env.ts";
import { startWorker, type Worker } from "./worker.ts";

/** Longer than a broker's drain and a database's time-out together; then something hangs. */
const STOP_TIMEOUT_MS = 60_000;

const env = environment();
const logger = pino({ level: env.logLevel, base: { service: "worker" } });
let worker: Worker | undefined;
let stopping = false;

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => void stop(signal));
}

try {
  worker = await startWorker({
    databaseUrl: env.databaseUrl,
    driver: new LocalDriver({
      home: env.home,
      program: { command: [env.brokerBin], environment: env.brokerEnvironment },
    }),
    logger,
  });
} catch (error) {
  logger.fatal({ err: error }, "the worker cannot start");
  process.exit(1);
}
// The signal may have come while the worker was starting.
if (stopping) await shutDown(worker);

async function stop(signal: string): Promise<void> {
  if (stopping) {
    // Whoever signals again does not want to wait. What is cut short here is resumed later.
    logger.warn({ signal }, "stopped without waiting");
    process.exit(1);
  }
  stopping = true;
  logger.info({ signal }, "worker stops");
  if (worker) await shutDown(worker);
}

async function shutDown(running: Worker): Promise<void> {
  setTimeout(() => {
    logger.fatal("the worker did not stop in time");
    process.exit(1);
  }, STOP_TIMEOUT_MS).unref();
  try {
    await running.stop({ stopBrokers: env.stopBrokersOnExit });
    process.exit(0);
  } catch (error) {
    logger.fatal({ err: error }, "the worker did not stop well");
    process.exit(1);
  }
}

function environment(): WorkerEnv {
  try {
    return readEnv();
  } catch (error) {
    process.stderr.write(`worker: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  }
}
