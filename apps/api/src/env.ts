import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { isAddressRange } from "@millrace/auth";
import { AWS_REGIONS } from "@millrace/domain";
import type { ControlLink, Gateways } from "@millrace/provisioner";
import { z } from "zod";
import { TRUSTED_PROXIES_DEFAULT, TrustedProxies } from "./client-address.ts";

const SECRET_CHARS_MIN = 32;
/** All of them are tried for what the secret in use does not open. */
const REPLACED_SECRETS_MAX = 5;
const PROJECT_ROOT = fileURLToPath(new URL("../../..", import.meta.url));

/** Unset, or set to nothing: absent. */
const optionalText = z
  .string()
  .transform((text) => text || undefined)
  .optional();

const Settings = z.object({
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }),
  MILLRACE_HOME: z
    .string()
    .default(resolve(PROJECT_ROOT, ".millrace"))
    .transform((path) => resolve(path)),
  MILLRACE_API_HOST: z.string().default("127.0.0.1"),
  MILLRACE_API_PORT: z.coerce.number().int().min(1).max(65_535).default(4000),
  MILLRACE_API_URL: z.url().default("http://localhost:4000"),
  MILLRACE_CONSOLE_URL: z.url().default("http://localhost:3000"),
  /** Addresses and CIDR blocks whose `X-Forwarded-For` is believed. */
  MILLRACE_TRUSTED_PROXIES: z
    .string()
    .default(TRUSTED_PROXIES_DEFAULT)
    .transform((networks, context) => {
      try {
        return new TrustedProxies(networks);
      } catch (error) {
        context.addIssue({ code: "custom", message: (error as Error).message });
        return z.NEVER;
      }
    }),
  /**
   * Addresses and CIDR blocks of identity providers that are not on the public Internet; whoever owns an organization
   * can have the API send requests there.
   */
  MILLRACE_SSO_ALLOWED_ADDRESSES: z
    .string()
    .default("")
    .transform((text) => text.split(",").map((each) => each.trim()))
    .transform((ranges) => ranges.filter((range) => range !== ""))
    .refine((ranges) => ranges.every(isAddressRange), {
      error: "must be addresses and CIDR blocks, separated by commas",
    }),
  /** 1 where platform operators may impersonate members with write access. */
  MILLRACE_IMPERSONATION_WRITE: z.enum(["0", "1"]).default("0"),
  /** 32 characters of at least 4 bits each. */
  MILLRACE_AUTH_SECRET: z.string().min(SECRET_CHARS_MIN),
  /** Secrets that it replaced, newest first, separated by commas. */
  MILLRACE_AUTH_SECRETS_REPLACED: z
    .string()
    .default("")
    .transform((text) => text.split(",").map((each) => each.trim()))
    .transform((secrets) => secrets.filter((secret) => secret !== ""))
    .refine((secrets) => secrets.length <= REPLACED_SECRETS_MAX, {
      error: `must be at most ${REPLACED_SECRETS_MAX} secrets`,
    })
    .refine((secrets) => secrets.every(({ length }) => length >= SECRET_CHARS_MIN), {
      error: `must be secrets of ${SECRET_CHARS_MIN} characters or more, separated by commas`,
    }),
  /** The broker program; it plans recoveries of clusters on this machine and starts no broker here. */
  MILLRACE_BROKER_BIN: z
    .string()
    .min(1)
    .default(resolve(PROJECT_ROOT, "dataplane/target/release/millrace"))
    .transform((path) => resolve(path)),
  /** Terraform, by which clusters on AWS are planned; found on PATH where absent. */
  MILLRACE_TERRAFORM_BIN: z
    .string()
    .transform((path) => path || "terraform")
    .default("terraform"),
  /** A folder with Terraform's AWS provider; the registry where absent. */
  MILLRACE_TERRAFORM_MIRROR: optionalText,
  MILLRACE_AWS_PROVIDER_VERSION: optionalText,
  /** `host:port` at which brokers connect to a gateway. With it, `MILLRACE_GATEWAY_URL` and the token. */
  MILLRACE_GATEWAY_ADDRESS: optionalText,
  /** Where gateways take calls to brokers. */
  MILLRACE_GATEWAY_URL: optionalText.pipe(z.url({ protocol: /^http$/ }).optional()),
  MILLRACE_GATEWAY_TOKEN: optionalText,
  /** 0 where no broker can run beside the control plane: on AWS. */
  MILLRACE_LOCAL_CLUSTERS: z.enum(["0", "1"]).default("1"),
  /** The provisioner's role; without it clusters on AWS can only be planned. */
  MILLRACE_AWS_ROLE_ARN: optionalText,
  /** The region that clusters on AWS can be created in: that of the bucket with the broker's builds. */
  MILLRACE_AWS_REGION: optionalText.pipe(z.enum(AWS_REGIONS).optional()),
  /** Passed on to Terraform: how much memory it may use to save CPU time. */
  GOGC: optionalText,
  PATH: z.string().default(""),
  HOME: z.string().default("/"),
  LOG_LEVEL: z.enum(["fatal", "error", "warn", "info", "debug", "trace", "silent"]).default("info"),
});
const Environment = Settings.refine(
  ({ MILLRACE_GATEWAY_ADDRESS: address, MILLRACE_GATEWAY_URL: url, ...env }) =>
    !url === !env.MILLRACE_GATEWAY_TOKEN && (!address || url),
  {
    path: ["MILLRACE_GATEWAY_URL"],
    error:
      "must be set together with MILLRACE_GATEWAY_TOKEN, and with MILLRACE_GATEWAY_ADDRESS, or none of them",
  },
).refine(
  (env) => env.MILLRACE_AWS_ROLE_ARN === undefined || env.MILLRACE_AWS_REGION !== undefined,
  {
    path: ["MILLRACE_AWS_REGION"],
    error: "must be set with MILLRACE_AWS_ROLE_ARN, to the region of the installation's bucket",
  },
);
export type Environment = z.infer<typeof Environment>;

/** Where brokers are called; undefined where they are called at their admin ports. */
export function gatewaysIn(env: Environment): Gateways | undefined {
  const { MILLRACE_GATEWAY_URL: url, MILLRACE_GATEWAY_TOKEN: token } = env;
  return url && token ? { url: url.replace(/\/+$/, ""), token } : undefined;
}

/** The gateways of brokers on this machine; undefined where these have none. */
export function gatewayIn(env: Environment): ControlLink | undefined {
  const gateways = gatewaysIn(env);
  const address = env.MILLRACE_GATEWAY_ADDRESS;
  return address && gateways ? { address, ...gateways } : undefined;
}

/** The program's settings. Prints what is wrong with them and ends the process where something is. */
export function readEnvironment(): Environment {
  const parsed = Environment.safeParse(process.env);
  if (parsed.success) return parsed.data;
  for (const issue of parsed.error.issues) {
    process.stderr.write(`${issue.path.join(".")}: ${issue.message}\n`);
  }
  process.exit(2);
}
