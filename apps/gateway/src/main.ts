import { pino } from "pino";
import { type GatewayEnv, readEnv } from "./env.ts";
import { startGateway } from "./gateway.ts";

/** Longer than a drain plus a database time-out; after that, something hangs. */
const STOP_TIMEOUT_MS = 20_000;

const env = environment();
const logger = pino({ level: env.logLevel, base: { service: "gateway" } });
const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => stopping.abort());

try {
  const gateway = await startGateway({ ...env, logger, signal: stopping.signal });
  if (!stopping.signal.aborted) {
    await new Promise((resolve) => stopping.signal.addEventListener("abort", resolve));
  }
  logger.info("gateway stops");
  setTimeout(() => {
    logger.fatal("the gateway did not stop in time");
    process.exit(1);
  }, STOP_TIMEOUT_MS).unref();
  await gateway.stop();
  process.exit(0);
} catch (error) {
  if (stopping.signal.aborted) process.exit(0);
  logger.fatal({ err: error }, "the gateway cannot start");
  process.exit(1);
}

function environment(): GatewayEnv {
  try {
    return readEnv();
  } catch (error) {
    process.stderr.write(`gateway: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  }
}
