/** A broker's configuration as text. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { endpointsAt, INITIAL_CLUSTER_USER, placementOf } from "@millrace/domain";
import { type ClusterDeployment, ProvisionError } from "../cluster-driver.ts";

const AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
/** The cluster's first user. Every other user may do what its ACLs allow. */
const FIRST_USER = `User:${INITIAL_CLUSTER_USER}`;
/** Whoever reaches the plaintext listener, which is on loopback. */
const ANYBODY = "User:ANONYMOUS";
/** A broker with it serves its admin HTTP at a gateway. */
export const LINK_ADDRESS = "control.link.address";
const DELEGATION_KEY = "delegation.token.secret.key";
/** Makes the broker a member of a cluster whose brokers share their metadata. */
const METADATA_DATABASE = "metadata.database.url";
/** Secrets, so only the file has them: not the text that plans compare and show. */
const SECRET_LINES = /^(delegation\.token\.secret\.key|metadata\.database\.url)=.*\n?/gm;
/** All brokers of this machine are in one place; the racks show clients what they would see of several. */
const RACKS = ["local-a", "local-b", "local-c"] as const;
/** Keys that only the driver may set. */
const RESERVED_KEYS: ReadonlySet<string> = new Set([
  "node.id",
  "cluster.id",
  "broker.rack",
  "listeners",
  "advertised.listeners",
  "ssl.keystore.type",
  "ssl.keystore.location",
  "sasl.enabled.mechanisms",
  "authorizer.class.name",
  "super.users",
  "admin.listener",
  "admin.token.file",
  "admin.sasl.enabled",
  LINK_ADDRESS,
  "control.link.credential.file",
  "control.link.ca.file",
  DELEGATION_KEY,
  METADATA_DATABASE,
  "data.dir",
  "s3.wal.path",
  "s3.data.buckets",
]);

/** Which broker it is, and where its parts are. */
export interface BrokerPlaces {
  /** 0 for the cluster's only broker. */
  readonly brokerId: number;
  readonly folder: string;
  /** What the brokers of a cluster share. */
  readonly clusterFolder: string;
  readonly tokenFile: string;
  readonly certificateFile: string;
  readonly linkCredentialFile: string;
  readonly linkRootFile: string;
  /** `host:port` of the gateways; undefined where this installation has none. */
  readonly linkAddress: string | undefined;
}

/** Secrets of a configuration; what is absent is not written. */
export interface BrokerSecrets {
  readonly delegationKey?: string | undefined;
  /** With the password. */
  readonly metadataUrl?: string | undefined;
}

/** The text of `server.properties` without its secrets. Throws where a property cannot be written or is reserved. */
export function renderProperties(files: BrokerPlaces, deployment: ClusterDeployment): string {
  const { brokerId } = files;
  const placement = placementOf(deployment.placement, brokerId);
  const { host, adminPort } = placement;
  const adminListener = adminPort === undefined ? "none" : `${host}:${adminPort}`;
  const listeners = endpointsAt(placement, { ...deployment, brokers: 1 })
    .map(({ protocol, bootstrapServers }) => `${protocol}://${bootstrapServers}`)
    .join(",");
  const own: Record<string, string> = {
    "node.id": `${brokerId}`,
    "cluster.id": deployment.clusterId,
    ...(brokerId > 0 && { "broker.rack": rackOf(brokerId) }),
    listeners,
    "advertised.listeners": listeners,
    ...(placement.tlsPort !== undefined && {
      "ssl.keystore.type": "PEM",
      "ssl.keystore.location": files.certificateFile,
      "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
      "authorizer.class.name": AUTHORIZER,
      "super.users": deployment.plaintextListener ? `${ANYBODY};${FIRST_USER}` : FIRST_USER,
      "admin.sasl.enabled": "true",
    }),
    "admin.listener": adminListener,
    "admin.token.file": files.tokenFile,
    ...(files.linkAddress !== undefined && {
      [LINK_ADDRESS]: files.linkAddress,
      "control.link.credential.file": files.linkCredentialFile,
      "control.link.ca.file": files.linkRootFile,
    }),
    "data.dir": join(files.folder, "data"),
    "s3.wal.path": `0@${fileUri(files.folder, "wal/wal")}?capacity=${deployment.walCapacityBytes}&iodepth=8&iops=3000`,
    "s3.data.buckets": `0@${fileUri(files.clusterFolder, "objects")}`,
  };
  for (const key of Object.keys(deployment.properties)) {
    if (RESERVED_KEYS.has(key)) throw new Error(`the property ${key} is set by the driver`);
  }
  const lines = Object.entries({ ...own, ...deployment.properties }).map(([key, value]) => {
    if (/[\r\n]/.test(value) || !/^[A-Za-z0-9._-]+$/.test(key)) {
      throw new ProvisionError("start_failed", `the property ${key} cannot be written to a file`);
    }
    // A backslash starts an escape in this format.
    return `${key}=${value.replaceAll("\\", "\\\\")}`;
  });
  return `# Written by Millrace; changes are overwritten.\n${lines.join("\n")}\n`;
}

/** The text that the file has. */
export function withSecrets(shown: string, { delegationKey, metadataUrl }: BrokerSecrets): string {
  const lines = [
    ...(delegationKey === undefined ? [] : [`${DELEGATION_KEY}=${delegationKey}\n`]),
    ...(metadataUrl === undefined ? [] : [`${METADATA_DATABASE}=${metadataUrl}\n`]),
  ];
  return `${shown}${lines.join("")}`;
}

export function withoutSecrets(text: string): string {
  return text.replace(SECRET_LINES, "");
}

function rackOf(brokerId: number): string {
  return RACKS[(brokerId - 1) % RACKS.length] ?? RACKS[0];
}

function fileUri(folder: string, part: string): string {
  return pathToFileURL(join(folder, part)).href;
}
