import { join, resolve } from "node:path";
import { z } from "zod";

const ROOT = resolve(import.meta.dirname, "../../..");

const schema = z.object({
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }),
  /** State folder of the installation. */
  MILLRACE_HOME: z.string().min(1).default(join(ROOT, ".millrace")),
  /** The broker program; the release build of this repository where absent. */
  MILLRACE_BROKER_BIN: z.string().min(1).default(join(ROOT, "dataplane/target/release/millrace")),
  /** `1`: brokers end with the worker, as a quick start wants it. They outlive it otherwise. */
  MILLRACE_STOP_BROKERS_ON_EXIT: z.enum(["0", "1"]).default("0"),
  LOG_LEVEL: z.enum(["fatal", "error", "warn", "info", "debug", "trace"]).default("info"),
});

export interface WorkerEnv {
  readonly databaseUrl: string;
  readonly home: string;
  readonly brokerBin: string;
  readonly stopBrokersOnExit: boolean;
  readonly logLevel: string;
  /** The whole environment that brokers are given. */
  readonly brokerEnvironment: Readonly<Record<string, string>>;
}

/**
 * What a broker may know of this program's environment: how to log, and how to reach object
 * storage. The database's address and the product's secrets are not among it.
 */
const BROKER_VARIABLE =
  /^(PATH|HOME|TMPDIR|LANG|LC_[A-Z]+|TZ|RUST_LOG|RUST_BACKTRACE|AWS_[A-Z_]+)$/;

/** Throws an error that names each variable that is missing or wrong. */
export function readEnv(source: NodeJS.ProcessEnv = process.env): WorkerEnv {
  const parsed = schema.safeParse(source);
  if (!parsed.success)
    throw new Error(`the environment is wrong\n${z.prettifyError(parsed.error)}`);
  const env = parsed.data;
  return {
    databaseUrl: env.DATABASE_URL,
    home: resolve(env.MILLRACE_HOME),
    brokerBin: resolve(env.MILLRACE_BROKER_BIN),
    stopBrokersOnExit: env.MILLRACE_STOP_BROKERS_ON_EXIT === "1",
    logLevel: env.LOG_LEVEL,
    brokerEnvironment: Object.fromEntries(
      Object.entries(source).flatMap(([name, value]) =>
        BROKER_VARIABLE.test(name) && value !== undefined ? [[name, value] as const] : [],
      ),
    ),
  };
}
