import { networkInterfaces } from "node:os";
import { z } from "zod";
import type { Endpoint } from "./gateway.ts";

const TOKEN_CHARS_MIN = 32;

/** `host:port` or `[IPv6]:port`. */
const endpoint = z.string().transform((text, context): Endpoint => {
  const [, host = "", port = ""] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/
    .exec(text)
    ?.filter((part) => part !== undefined) ?? [""];
  if (host !== "" && Number(port) <= 65_535) return { host, port: Number(port) };
  context.addIssue({ code: "custom", message: "must be host:port" });
  return z.NEVER;
});

const schema = z.object({
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }),
  /** Where brokers connect. */
  MILLRACE_GATEWAY_LISTEN: endpoint.prefault("127.0.0.1:4100"),
  /** Where API, worker and other gateways call brokers. */
  MILLRACE_GATEWAY_INTERNAL_LISTEN: endpoint.prefault("127.0.0.1:4101"),
  /** How other gateways reach this one; needed where it listens on all of several addresses. */
  MILLRACE_GATEWAY_INTERNAL_URL: z.url({ protocol: /^http$/ }).optional(),
  /** Of API, worker and all gateways. */
  MILLRACE_GATEWAY_TOKEN: z.string().min(TOKEN_CHARS_MIN),
  /** Certificate, chain and key in PEM. `none` only where a load balancer ends TLS and nobody else reaches the port. */
  MILLRACE_GATEWAY_TLS_FILE: z.string().min(1),
  LOG_LEVEL: z.enum(["fatal", "error", "warn", "info", "debug", "trace"]).default("info"),
});

export interface GatewayEnv {
  readonly databaseUrl: string;
  readonly listen: Endpoint;
  readonly internalListen: Endpoint;
  readonly internalUrl: string | undefined;
  readonly token: string;
  readonly tlsFile: string | undefined;
  readonly logLevel: string;
}

const EVERY_ADDRESS = ["0.0.0.0", "::"];

/** Throws an error that names each variable that is missing or wrong. */
export function readEnv(
  source: NodeJS.ProcessEnv = process.env,
  addresses: readonly string[] = ownAddresses(),
): GatewayEnv {
  const parsed = schema.safeParse(source);
  if (!parsed.success)
    throw new Error(`the environment is wrong\n${z.prettifyError(parsed.error)}`);
  const env = parsed.data;
  return {
    databaseUrl: env.DATABASE_URL,
    listen: env.MILLRACE_GATEWAY_LISTEN,
    internalListen: env.MILLRACE_GATEWAY_INTERNAL_LISTEN,
    internalUrl: internalUrl(env, addresses),
    token: env.MILLRACE_GATEWAY_TOKEN,
    tlsFile: env.MILLRACE_GATEWAY_TLS_FILE === "none" ? undefined : env.MILLRACE_GATEWAY_TLS_FILE,
    logLevel: env.LOG_LEVEL,
  };
}

/** Undefined: the address that it listens on. */
function internalUrl(env: z.infer<typeof schema>, addresses: readonly string[]) {
  if (env.MILLRACE_GATEWAY_INTERNAL_URL !== undefined) {
    return env.MILLRACE_GATEWAY_INTERNAL_URL.replace(/\/+$/, "");
  }
  const { host, port } = env.MILLRACE_GATEWAY_INTERNAL_LISTEN;
  if (!EVERY_ADDRESS.includes(host)) return undefined;
  const [only, ...others] = addresses;
  if (only !== undefined && others.length === 0) return `http://${only}:${port}`;
  throw new Error(
    `the environment is wrong\nMILLRACE_GATEWAY_INTERNAL_LISTEN is ${host}, and this machine has ${addresses.length} addresses: set MILLRACE_GATEWAY_INTERNAL_URL to the one at which other gateways reach this one`,
  );
}

/** IPv4 addresses that others reach: a task on AWS has one, and learns it only here. */
function ownAddresses(): string[] {
  return Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .filter(({ family, internal }) => family === "IPv4" && !internal)
    .map(({ address }) => address)
    .filter((address) => !address.startsWith("169.254."));
}
