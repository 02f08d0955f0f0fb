import { once } from "node:events";
import { DeferredWrites, OutgoingRequests } from "@millrace/auth";
import { brokerHttpBy } from "@millrace/core";
import { openDatabase, RoleUnconfined } from "@millrace/db";
import { pino } from "pino";
import { brokerAccess } from "./broker-access.ts";
import { createApi } from "./create-api.ts";
import { gatewayIn, gatewaysIn, readEnvironment } from "./env.ts";
import { listen } from "./http-server.ts";
import { regionDrivers } from "./region-drivers.ts";
import { resealSecrets } from "./reseal-secrets.ts";

/** Requests in flight at shutdown get this long; streams and long polls end at once. */
const DRAIN_MS_MAX = 5_000;
/** Counts of limits are of no use once their windows, of an hour at most, are over. */
const COUNTS_KEPT_MS = 2 * 3_600_000;
const FORGET_INTERVAL_MS = 10 * 60_000;
/** Until then, processes that only know the replaced secret have ended: a deployment takes minutes. */
const RESEAL_INTERVAL_MS = 10 * 60_000;

const env = readEnvironment();
const log = pino({ level: env.LOG_LEVEL, base: { service: "api" } });
const db = openDatabase({
  url: env.DATABASE_URL,
  onError: (error) => log.warn({ err: error }, "the job queue's connection failed"),
});
const stopping = new AbortController();
await assertConfined();
const deferredWrites = new DeferredWrites((error) =>
  log.error({ err: error }, "cannot write to the audit log"),
);
const secrets = {
  secret: env.MILLRACE_AUTH_SECRET,
  replacedSecrets: env.MILLRACE_AUTH_SECRETS_REPLACED,
};
const app = createApi({
  db,
  log,
  deferredWrites,
  stopping: stopping.signal,
  ...secrets,
  apiUrl: env.MILLRACE_API_URL,
  consoleUrl: env.MILLRACE_CONSOLE_URL,
  trustedProxies: env.MILLRACE_TRUSTED_PROXIES,
  brokerHttp: brokerHttpBy(
    brokerAccess({
      home: env.MILLRACE_HOME,
      link: gatewayIn(env),
      gateways: gatewaysIn(env),
    }),
  ),
  drivers: regionDrivers(env, gatewayIn(env)),
  impersonationMayWrite: env.MILLRACE_IMPERSONATION_WRITE === "1",
  outgoing: new OutgoingRequests({ allowedAddresses: env.MILLRACE_SSO_ALLOWED_ADDRESSES }),
});
const server = listen({
  fetch: app.fetch,
  hostname: env.MILLRACE_API_HOST,
  port: env.MILLRACE_API_PORT,
});
server.on("listening", () => log.info({ url: env.MILLRACE_API_URL }, "serving"));
server.on("error", (error) => {
  log.fatal({ err: error }, "cannot serve");
  process.exit(1);
});

const forgetting = setInterval(() => {
  db.rateLimits
    .deleteBefore(Date.now() - COUNTS_KEPT_MS)
    .catch((error: unknown) => log.warn({ err: error }, "cannot delete old counts of limits"));
}, FORGET_INTERVAL_MS);

const resealing =
  secrets.replacedSecrets.length > 0 ? setInterval(reseal, RESEAL_INTERVAL_MS) : undefined;

function reseal(): void {
  resealSecrets({ db, log, apiUrl: env.MILLRACE_API_URL, ...secrets }).catch((error: unknown) =>
    log.warn({ err: error }, "cannot seal secrets again"),
  );
}

/** Row-level security that does not bind this process is worse than none: nobody would notice. */
async function assertConfined(): Promise<void> {
  try {
    await db.assertConfined();
  } catch (error) {
    if (error instanceof RoleUnconfined) log.fatal(error.message);
    else log.fatal({ err: error }, "the database does not answer");
    process.exit(1);
  }
}

async function stop(signal: string): Promise<void> {
  if (stopping.signal.aborted) return;
  stopping.abort();
  clearInterval(forgetting);
  clearInterval(resealing);
  log.info({ signal }, "stopping");
  const cut = setTimeout(() => server.closeAllConnections(), DRAIN_MS_MAX);
  server.close();
  server.closeIdleConnections();
  await once(server, "close");
  clearTimeout(cut);
  await deferredWrites.settled();
  await db.close();
}
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => void stop(signal));
