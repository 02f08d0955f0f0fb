import { join, resolve } from "node:path";
import type { ControlLink, Gateways } from "@millrace/provisioner";
import { z } from "zod";

const ROOT = resolve(import.meta.dirname, "../../..");

/** An empty variable counts as absent. */
const optionalText = z
  .string()
  .transform((text) => text || undefined)
  .optional();

const DRIFT_INTERVAL_SECONDS_DEFAULT = 6 * 60 * 60;
const ALARM_TOPIC = /^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[\w.-]{1,256}$/;
/** Actions of an alarm for each of its states, as `PutMetricAlarm` takes them. */
const ALARM_TOPICS_MAX = 5;

const schema = z.object({
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }),
  /**
   * A PostgreSQL in which clusters of several brokers get a database each for their metadata, as a role that may create
   * databases and roles. Without it, local clusters have one broker.
   */
  MILLRACE_METADATA_DATABASE_URL: optionalText.pipe(
    z.url({ protocol: /^postgres(ql)?$/ }).optional(),
  ),
  /** State folder of the installation. */
  MILLRACE_HOME: z.string().min(1).default(join(ROOT, ".millrace")),
  /** The broker program; the release build of this repository where absent. */
  MILLRACE_BROKER_BIN: z.string().min(1).default(join(ROOT, "dataplane/target/release/millrace")),
  /** `1`: brokers stop with the worker, as in the quick start. Otherwise they outlive it. */
  MILLRACE_STOP_BROKERS_ON_EXIT: z.enum(["0", "1"]).default("0"),
  /** `host:port` at which brokers connect to a gateway. With it, `MILLRACE_GATEWAY_URL` and the token. */
  MILLRACE_GATEWAY_ADDRESS: optionalText,
  /** Where gateways take calls to brokers. */
  MILLRACE_GATEWAY_URL: optionalText.pipe(z.url({ protocol: /^http$/ }).optional()),
  MILLRACE_GATEWAY_TOKEN: optionalText,
  /** The Terraform program for clusters on AWS; searched on PATH if absent. */
  MILLRACE_TERRAFORM_BIN: z
    .string()
    .transform((path) => path || "terraform")
    .default("terraform"),
  /** A folder with Terraform's AWS provider; the registry where absent. */
  MILLRACE_TERRAFORM_MIRROR: optionalText,
  /** The provisioner's role in the account; without it there are no clusters on AWS. */
  MILLRACE_AWS_ROLE_ARN: optionalText,
  /** A secret of the installation, from which each tenant's external id is derived. */
  MILLRACE_AWS_EXTERNAL_ID: optionalText,
  /** Where broker slots fetch their program: a bucket, and `<key>#<SHA-256 in hexadecimal>`. */
  MILLRACE_AWS_ARTEFACT_BUCKET: optionalText,
  MILLRACE_AWS_BROKER_ARTEFACT: z
    .string()
    .regex(/^(.+#[0-9a-f]{64})?$/, "is to be <key>#<SHA-256 in hexadecimal>")
    .transform((text) => text || undefined)
    .optional(),
  /** Key that the bucket encrypts the program with, where slots' roles must be let use it. */
  MILLRACE_AWS_ARTEFACT_KMS_KEY_ARN: optionalText,
  /** AMI of slots' instances: a release replaces it, not a start of an instance. */
  MILLRACE_AWS_AMI_ID: z
    .string()
    .regex(/^(ami-[0-9a-f]{8,17})?$/, "must be an AMI's id: ami- and 8 to 17 hexadecimal digits")
    .transform((text) => text || undefined)
    .optional(),
  MILLRACE_AWS_PERMISSIONS_BOUNDARY_ARN: optionalText,
  MILLRACE_AWS_PROVIDER_VERSION: optionalText,
  /** The endpoint service of the gateways, which clusters' brokers dial. */
  MILLRACE_AWS_LINK_SERVICE: optionalText,
  /** Its domain: the gateways' certificate is for each name directly below it. */
  MILLRACE_AWS_LINK_DOMAIN: optionalText,
  /** The zones that it is in, separated by commas. */
  MILLRACE_AWS_LINK_ZONES: optionalText,
  /** SNS topics that clusters' alarms are sent to, separated by commas. */
  MILLRACE_AWS_ALARM_TOPICS: z
    .string()
    .default("")
    .transform(listOf)
    .refine((topics) => topics.every((topic) => ALARM_TOPIC.test(topic)), {
      error: "must be ARNs of SNS topics, separated by commas",
    })
    .refine((topics) => topics.length <= ALARM_TOPICS_MAX, {
      error: `must be at most ${ALARM_TOPICS_MAX} topics: CloudWatch takes no more for an alarm`,
    }),
  /** A file with the authorities of AWS's databases, in PEM; clusters of several brokers need it. */
  MILLRACE_AWS_DATABASE_CA: optionalText,
  /** Key of KMS that wraps the keys of Terraform states; a file in the state folder where absent. */
  MILLRACE_AWS_STATE_KEY_ARN: optionalText,
  /** Keys of KMS that it has replaced, separated by commas: the worker rewraps what they have wrapped. */
  MILLRACE_AWS_STATE_KEY_ARNS_REPLACED: z.string().default("").transform(listOf),
  /** Address of an emulator of AWS. */
  MILLRACE_AWS_ENDPOINT: optionalText,
  /** Set by ECS in each of its containers. */
  ECS_AGENT_URI: optionalText,
  /** Seconds between two drift checks at each cluster. */
  MILLRACE_DRIFT_INTERVAL: z.coerce.number().int().min(60).default(DRIFT_INTERVAL_SECONDS_DEFAULT),
  LOG_LEVEL: z.enum(["fatal", "error", "warn", "info", "debug", "trace"]).default("info"),
});

export interface AwsEnv {
  readonly roleArn: string;
  readonly externalId: string;
  readonly artefact: { readonly bucket: string; readonly key: string; readonly sha256: string };
  readonly amiId: string;
  readonly permissionsBoundaryArn: string;
  readonly providerVersion: string | undefined;
  readonly controlLink: {
    readonly name: string;
    readonly domain: string;
    readonly zones: readonly string[];
  };
  /** Where brokers are called. */
  readonly gateways: Gateways;
  readonly alarmTopicArns: readonly string[];
  /** Path of a file. */
  readonly databaseCa: string | undefined;
  readonly stateKeyArn: string | undefined;
  readonly replacedStateKeyArns: readonly string[];
  readonly endpoint: string | undefined;
  /** ECS's agent; undefined outside of ECS. */
  readonly taskAgentUri: string | undefined;
  readonly terraform: {
    readonly bin: string;
    readonly mirror: string | undefined;
    readonly path: string;
    readonly home: string;
    /** From these, Terraform's provider finds this program's identity. */
    readonly credentials: Readonly<Record<string, string>>;
    readonly gogc: string | undefined;
  };
}

export interface WorkerEnv {
  readonly databaseUrl: string;
  readonly metadataDatabaseUrl: string | undefined;
  readonly home: string;
  readonly brokerBin: string;
  readonly stopBrokersOnExit: boolean;
  readonly logLevel: string;
  readonly driftIntervalMs: number;
  /** Undefined where brokers on this machine are called at their admin ports. */
  readonly gateway: ControlLink | undefined;
  /** Undefined where this installation has no account on AWS. */
  readonly aws: AwsEnv | undefined;
  /** The brokers' whole environment. */
  readonly brokerEnvironment: Readonly<Record<string, string>>;
}

/**
 * The part of this program's environment that brokers get: logging and access to object storage, but not the
 * database's address or the product's secrets.
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
    metadataDatabaseUrl: env.MILLRACE_METADATA_DATABASE_URL,
    home: resolve(env.MILLRACE_HOME),
    brokerBin: resolve(env.MILLRACE_BROKER_BIN),
    stopBrokersOnExit: env.MILLRACE_STOP_BROKERS_ON_EXIT === "1",
    logLevel: env.LOG_LEVEL,
    driftIntervalMs: env.MILLRACE_DRIFT_INTERVAL * 1_000,
    gateway: gatewayIn(env),
    aws: awsEnv(env, source),
    brokerEnvironment: variablesIn(source, BROKER_VARIABLE),
  };
}

/**
 * The gateway of the brokers that this worker starts; without its address they have no link. Throws an error that names
 * the variables that belong together.
 */
function gatewayIn(env: z.infer<typeof schema>): ControlLink | undefined {
  const {
    MILLRACE_GATEWAY_ADDRESS: address,
    MILLRACE_GATEWAY_URL: url,
    MILLRACE_GATEWAY_TOKEN: token,
  } = env;
  if (address && url && token) return { address, url: withoutSlash(url), token };
  if (!address && !url === !token) return undefined;
  throw new Error(
    "the environment is wrong\nMILLRACE_GATEWAY_URL and MILLRACE_GATEWAY_TOKEN must be set together, and with MILLRACE_GATEWAY_ADDRESS, or none of them",
  );
}

function withoutSlash(url: string): string {
  return url.replace(/\/+$/, "");
}

/** Throws an error that names each variable that is missing beside the role. */
function awsEnv(env: z.infer<typeof schema>, source: NodeJS.ProcessEnv): AwsEnv | undefined {
  if (env.MILLRACE_AWS_ROLE_ARN === undefined) return undefined;
  const required = [
    "MILLRACE_AWS_EXTERNAL_ID",
    "MILLRACE_AWS_ARTEFACT_BUCKET",
    "MILLRACE_AWS_BROKER_ARTEFACT",
    "MILLRACE_AWS_AMI_ID",
    "MILLRACE_AWS_PERMISSIONS_BOUNDARY_ARN",
    "MILLRACE_AWS_LINK_SERVICE",
    "MILLRACE_AWS_LINK_DOMAIN",
    "MILLRACE_AWS_LINK_ZONES",
    "MILLRACE_GATEWAY_URL",
    "MILLRACE_GATEWAY_TOKEN",
  ] as const;
  const missing = required.filter((name) => env[name] === undefined);
  if (missing.length > 0) {
    throw new Error(
      `the environment is wrong\nMILLRACE_AWS_ROLE_ARN is set, so these must be too: ${missing.join(", ")}`,
    );
  }
  const [key = "", sha256 = ""] = splitAtLast(env.MILLRACE_AWS_BROKER_ARTEFACT ?? "", "#");
  return {
    roleArn: env.MILLRACE_AWS_ROLE_ARN,
    externalId: env.MILLRACE_AWS_EXTERNAL_ID ?? "",
    artefact: {
      bucket: env.MILLRACE_AWS_ARTEFACT_BUCKET ?? "",
      key,
      sha256,
      ...(env.MILLRACE_AWS_ARTEFACT_KMS_KEY_ARN === undefined
        ? {}
        : { kmsKeyArn: env.MILLRACE_AWS_ARTEFACT_KMS_KEY_ARN }),
    },
    amiId: env.MILLRACE_AWS_AMI_ID ?? "",
    permissionsBoundaryArn: env.MILLRACE_AWS_PERMISSIONS_BOUNDARY_ARN ?? "",
    providerVersion: env.MILLRACE_AWS_PROVIDER_VERSION,
    controlLink: {
      name: env.MILLRACE_AWS_LINK_SERVICE ?? "",
      domain: env.MILLRACE_AWS_LINK_DOMAIN ?? "",
      zones: listOf(env.MILLRACE_AWS_LINK_ZONES ?? ""),
    },
    gateways: {
      url: withoutSlash(env.MILLRACE_GATEWAY_URL ?? ""),
      token: env.MILLRACE_GATEWAY_TOKEN ?? "",
    },
    alarmTopicArns: env.MILLRACE_AWS_ALARM_TOPICS,
    databaseCa: env.MILLRACE_AWS_DATABASE_CA,
    stateKeyArn: env.MILLRACE_AWS_STATE_KEY_ARN,
    replacedStateKeyArns: env.MILLRACE_AWS_STATE_KEY_ARNS_REPLACED,
    endpoint: env.MILLRACE_AWS_ENDPOINT,
    taskAgentUri: env.ECS_AGENT_URI,
    terraform: {
      bin: env.MILLRACE_TERRAFORM_BIN,
      mirror: env.MILLRACE_TERRAFORM_MIRROR,
      path: source.PATH ?? "",
      home: source.HOME ?? "/",
      credentials: variablesIn(source, AWS_VARIABLE),
      gogc: source.GOGC,
    },
  };
}

const AWS_VARIABLE = /^AWS_[A-Z_]+$/;

/** What stands between commas. */
function listOf(text: string): readonly string[] {
  return text
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "");
}

function splitAtLast(text: string, separator: string): string[] {
  const at = text.lastIndexOf(separator);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + separator.length)];
}

function variablesIn(source: NodeJS.ProcessEnv, wanted: RegExp): Record<string, string> {
  return Object.fromEntries(
    Object.entries(source).flatMap(([name, value]) =>
      wanted.test(name) && value !== undefined ? [[name, value] as const] : [],
    ),
  );
}
