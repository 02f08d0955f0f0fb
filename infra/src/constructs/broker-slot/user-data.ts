/**
 * What an instance of a broker slot runs at its first boot: a shell script, user-data.sh, behind a
 * head of constants that say which slot it is.
 */
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import type { WalFence } from "../../stacks/cluster/wal-fence.ts";

/** Which slot an instance serves, and with what. Holds no secret: anyone on the instance reads it. */
export interface BrokerSlotSpec {
  readonly clusterId: string;
  /** The broker's node id, and the tag `millrace:slot` of its volume. */
  readonly slot: number;
  readonly region: string;
  /** The broker's program, one file for the instance's architecture. */
  readonly broker: { readonly bucket: string; readonly key: string; readonly sha256: string };
  /** The data bucket; `uri` as in `s3.data.buckets`, without a number. */
  readonly dataBucket: { readonly name: string; readonly uri: string };
  /**
   * The control link: `host:port` of the gateways, and ARN or name of the secret whose text is the slot's
   * credential there.
   */
  readonly link: { readonly address: string; readonly credentialSecret: string };
  /** Where the broker listens. */
  readonly kafkaPort: number;
  /** The address that clients receive: the slot's own name and listener at the load balancer. */
  readonly advertised: { readonly host: string; readonly port: number };
  readonly wal: WalSettings;
  readonly logGroup: string;
  /** Properties that follow from the cluster's size, under Kafka's names and `s3.*`. */
  readonly properties: Readonly<Record<string, string>>;
  /** Absent where the slot is the cluster's only one. */
  readonly several?: SeveralSettings;
}

/** What a slot of several has, which share their metadata in a database. */
export interface SeveralSettings {
  /** Its zone: `broker.rack`. */
  readonly rack: string;
  readonly fence: WalFence;
  /** ARN or name of the secret whose text is `metadata.database.url`. */
  readonly metadataSecret: string;
  /** The certificate, in PEM, of the authority that the database's own is from. */
  readonly databaseAuthority: string;
}

/** Where a slot of several puts that certificate. */
export const AUTHORITY_FILE = "/run/millrace/etc/database-ca.pem";

/** The write-ahead log: a file on the slot's volume, or, with several slots, the whole volume. */
export interface WalSettings {
  /** For a new log of a slot that is alone; an existing one keeps its capacity. Others have all of their volume. */
  readonly capacityBytes: number;
  readonly ioDepth?: number;
  /** IOPS of the volume. Absent: the log is not paced. */
  readonly iops?: number;
  readonly bandwidthBytes?: number;
}

/** EC2's limit, before base64. */
const USER_DATA_BYTES_MAX = 16_384;

/** Keys that the script writes itself. */
const RESERVED_KEYS: ReadonlySet<string> = new Set([
  "node.id",
  "cluster.id",
  "listeners",
  "advertised.listeners",
  "admin.listener",
  "admin.token.file",
  "control.link.address",
  "control.link.credential.file",
  "control.link.ca.file",
  "data.dir",
  "shutdown.drain.ms",
  "s3.wal.path",
  "s3.data.buckets",
  "broker.rack",
  "metadata.database.url",
  "inter.broker.listener",
]);

/** Where brokers of one cluster reach each other. */
export const INTER_BROKER_PORT = 9103;

const SOURCE = readFileSync(new URL("./user-data.sh", import.meta.url), "utf8");
/** What only a slot of several runs, and what only one that is alone does: see the script's head. */
const OF_SEVERAL = /^#: ?/gm;
const LINES_OF_SEVERAL = /^#:.*\n/gm;
const PART_OF_ONE = /^#\{.*\n[\s\S]*?^#\}.*\n/gm;
const MARKS_OF_ONE = /^#[{}].*\n/gm;

const SCRIPT_OF_ONE = packed(SOURCE.replaceAll(LINES_OF_SEVERAL, "").replaceAll(MARKS_OF_ONE, ""));
const SCRIPT_OF_SEVERAL = packed(SOURCE.replaceAll(PART_OF_ONE, "").replaceAll(OF_SEVERAL, ""));

/**
 * Without its comments and indentation, lines unfolded: an instance has 16 KiB for the rest. Here
 * documents keep their indentation, as tabs.
 */
function packed(source: string): string {
  return source
    .split(/^(.*<<'?EOF'?\n[\s\S]*?^EOF$)/m)
    .map((part, index) => (index % 2 === 0 ? withoutIndent(part) : withTabs(part)))
    .join("")
    .split("\n")
    .filter((line) => !/^\s*# /.test(line) && !/^\s*#?$/.test(line))
    .join("\n")
    .replaceAll(/\\\n/g, "");
}

function withoutIndent(code: string): string {
  return code.replaceAll(/^ +/gm, "");
}

function withTabs(document: string): string {
  return document
    .trimStart()
    .replaceAll(/^(?: {2})+/gm, (spaces) => "\t".repeat(spaces.length / 2));
}

/**
 * The script as an instance runs it.
 * Throws if a value cannot be quoted in a script, or the script exceeds EC2's limit.
 */
export function userData(spec: BrokerSlotSpec): string {
  const text =
    spec.several === undefined
      ? `${head(spec)}${SCRIPT_OF_ONE}\n`
      : unpacking(scriptOfSeveral({ ...spec, several: spec.several }));
  const bytes = Buffer.byteLength(text);
  if (bytes > USER_DATA_BYTES_MAX) {
    throw new Error(`user data has ${bytes} bytes, EC2 takes ${USER_DATA_BYTES_MAX}`);
  }
  return text;
}

/** The script of a slot of several before it is compressed. Throws as `userData` does. */
export function scriptOfSeveral(
  spec: BrokerSlotSpec & { readonly several: SeveralSettings },
): string {
  const authority = `DATABASE_AUTHORITY='${pem(spec.several.databaseAuthority)}'\n`;
  return `${head(spec)}${authority}${SCRIPT_OF_SEVERAL}\n`;
}

/**
 * A script that unpacks `script` and runs it: with the certificate it is too long otherwise. Another version of the compressor may
 * make other bytes of it, which replaces instances one by one at the next apply, as a new build does.
 */
function unpacking(script: string): string {
  const lines =
    gzipSync(script, { level: 9 })
      .toString("base64")
      .match(/.{1,120}/g) ?? [];
  return `#!/bin/bash
set -euo pipefail
umask 077
script=$(mktemp)
base64 -d <<'EOF' | gzip -d >"$script"
${lines.join("\n")}
EOF
exec bash "$script" "$@"
`;
}

function head(spec: BrokerSlotSpec): string {
  const isAlone = spec.several === undefined;
  const constants: Record<string, string> = {
    CLUSTER_ID: spec.clusterId,
    SLOT: whole("slot", spec.slot, 0),
    REGION: spec.region,
    BROKER_BUCKET: spec.broker.bucket,
    BROKER_KEY: spec.broker.key,
    BROKER_SHA256: checksum(spec.broker.sha256),
    ...(isAlone && { DATA_BUCKET: spec.dataBucket.name }),
    DATA_BUCKET_URI: spec.dataBucket.uri,
    LINK_ADDRESS: spec.link.address,
    LINK_SECRET: spec.link.credentialSecret,
    KAFKA_PORT: port("kafkaPort", spec.kafkaPort),
    ADVERTISED_HOST: spec.advertised.host,
    ADVERTISED_PORT: port("advertised.port", spec.advertised.port),
    ...(isAlone && {
      WAL_CAPACITY_BYTES: whole("wal.capacityBytes", spec.wal.capacityBytes, 1),
    }),
    WAL_PARAMETERS: walParameters(spec.wal),
    LOG_GROUP: spec.logGroup,
    ...(spec.several && {
      INTER_BROKER_PORT: `${INTER_BROKER_PORT}`,
      RACK: spec.several.rack,
      WAL_FENCE: spec.several.fence,
      METADATA_SECRET: spec.several.metadataSecret,
    }),
  };
  const lines = Object.entries(constants).map(([name, value]) => `${name}=${quoted(name, value)}`);
  return `#!/bin/bash\n${lines.join("\n")}\nPROPERTIES='${propertyLines(spec.properties)}'\n`;
}

/** Between single quotes the shell takes everything literally, except another quote. */
function quoted(name: string, value: string): string {
  if (!/^[A-Za-z0-9 ._:/?&=@+-]*$/.test(value)) {
    throw new Error(`${name} cannot stand in user data: ${JSON.stringify(value)}`);
  }
  return `'${value}'`;
}

function walParameters(wal: WalSettings): string {
  const parameters = { iodepth: wal.ioDepth, iops: wal.iops, bandwidth: wal.bandwidthBytes };
  return Object.entries(parameters)
    .flatMap(([name, value]) => (value === undefined ? [] : `&${name}=${whole(name, value, 1)}`))
    .join("");
}

function propertyLines(properties: Readonly<Record<string, string>>): string {
  const lines = Object.entries(properties).map(([key, value]) => {
    if (RESERVED_KEYS.has(key)) throw new Error(`the property ${key} is the slot's own`);
    if (!/^[A-Za-z0-9._-]+$/.test(key) || !/^[A-Za-z0-9 ._:/,=@+-]*$/.test(value)) {
      throw new Error(`the property ${key} cannot stand in user data: ${JSON.stringify(value)}`);
    }
    return `${key}=${value}`;
  });
  return lines.join("\n");
}

function pem(certificate: string): string {
  const text = certificate.trim();
  if (!/^-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+\n-----END CERTIFICATE-----$/.test(text)) {
    throw new Error("the authority of the metadata database must be one certificate in PEM");
  }
  return text;
}

function checksum(sha256: string): string {
  if (!/^[0-9a-f]{64}$/.test(sha256)) {
    throw new Error(`the broker's SHA-256 is 64 lower-case hexadecimal digits, not "${sha256}"`);
  }
  return sha256;
}

function port(name: string, value: number): string {
  if (value > 65_535) throw new Error(`${name} must be a port, 1 to 65535, not ${value}`);
  return whole(name, value, 1);
}

function whole(name: string, value: number, min: number): string {
  if (!Number.isSafeInteger(value) || value < min) {
    throw new Error(`${name} must be a whole number from ${min} on, not ${value}`);
  }
  return String(value);
}
