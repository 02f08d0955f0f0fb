import {
  type ClusterDriver,
  ClusterDrivers,
  type LinkCredentials,
  LocalDriver,
  PostgresMetadataDatabases,
  type TerraformStates,
} from "@millrace/provisioner";
import { pino } from "pino";
import { readEnv, type WorkerEnv } from "./env.ts";
import { startWorker, stopAllBrokers, type Worker } from "./worker.ts";

/**
 * Longer than a broker's drain plus a database time-out. An interrupted Terraform may take longer; it gets what Fargate
 * allows, 120 seconds from SIGTERM on.
 */
const STOP_TIMEOUT_MS = 110_000;

const env = environment();
const logger = pino({ level: env.logLevel, base: { service: "worker" } });
const stopping = new AbortController();

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    // A terminal's Ctrl-C reaches this program twice, from the terminal and from the program that
    // started it. Stopping is bounded anyway; cutting it short would leave brokers behind.
    if (stopping.signal.aborted) return;
    logger.info({ signal }, "worker stops");
    stopping.abort();
  });
}

try {
  const { databaseUrl } = env;
  const worker = await startWorker({
    databaseUrl,
    drivers: async (states, linkCredentials) => {
      const local = localDriver(linkCredentials);
      // A gateway that starts waits for it.
      await local.ensureGatewayCertificate();
      return new ClusterDrivers({ local, aws: await awsDriver(states, linkCredentials) });
    },
    driftIntervalMs: env.driftIntervalMs,
    logger,
    signal: stopping.signal,
  });
  await stopped();
  await shutDown(worker);
} catch (error) {
  if (!stopping.signal.aborted) {
    logger.fatal({ err: error }, "the worker cannot start");
    process.exit(1);
  }
  // The stop came before the start was complete. Brokers of an earlier worker may still run.
  await shutDown(undefined);
}

function localDriver(linkCredentials?: LinkCredentials): LocalDriver {
  const { metadataDatabaseUrl } = env;
  return new LocalDriver({
    metadata: metadataDatabaseUrl ? new PostgresMetadataDatabases(metadataDatabaseUrl) : undefined,
    home: env.home,
    program: { command: [env.brokerBin], environment: env.brokerEnvironment },
    link: env.gateway,
    linkCredentials,
  });
}

/** Loaded only with an AWS account, because the AWS SDK is larger than everything else. */
async function awsDriver(
  states: TerraformStates,
  linkCredentials: LinkCredentials,
): Promise<ClusterDriver | undefined> {
  if (!env.aws) return undefined;
  const module = await import("./aws-driver.ts");
  return module.awsDriver(env.aws, env.home, { states, linkCredentials, logger });
}

async function stopped(): Promise<void> {
  if (stopping.signal.aborted) return;
  await new Promise((resolve) => stopping.signal.addEventListener("abort", resolve));
}

async function shutDown(worker: Worker | undefined): Promise<never> {
  setTimeout(() => {
    logger.fatal("the worker did not stop in time");
    process.exit(1);
  }, STOP_TIMEOUT_MS).unref();
  try {
    if (worker) await worker.stop({ stopBrokers: env.stopBrokersOnExit });
    else if (env.stopBrokersOnExit) await stopAllBrokers(localDriver(), logger);
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
