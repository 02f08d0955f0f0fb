import { createHash } from "node:crypto";
import type { MetadataSecrets } from "../../constructs/metadata-database/metadata-database.ts";

const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";
const HASH_CHARACTERS = 10;

/** Ports of the load balancer: one for all slots, then one for each, in one range: slot n has the first one and n. */
export const KAFKA_PORT_BOOTSTRAP = 9092;
export const KAFKA_PORT_SLOT_0 = 9093;
/** Port of a broker on its instance. */
export const BROKER_KAFKA_PORT = 9092;
/** Where the gateways of the control plane listen. */
export const LINK_PORT = 443;

function hashOf(clusterId: string): string {
  const digest = createHash("sha256").update(clusterId).digest();
  return Array.from(digest.subarray(0, HASH_CHARACTERS), (byte) => BASE32[byte & 31]).join("");
}

/**
 * Prefix of every name that must be unique in AWS. Nineteen characters, because names of load balancers and target
 * groups have at most 32; 50 bits of hash, so that two clusters of an account do not collide.
 */
export function clusterPrefix(clusterId: string): string {
  return `millrace-${hashOf(clusterId)}`;
}

/** Names of a cluster's parts that others refer to: known before anything exists. */
export interface ClusterNames {
  readonly prefix: string;
  readonly bucket: string;
  /** The secret with a slot's credential of the control link. */
  readonly linkSecret: (slot: number) => string;
  /** The secrets of the metadata database that several slots share. */
  readonly metadataSecrets: MetadataSecrets;
  readonly logGroup: string;
  readonly dnsZone: string;
  readonly bootstrapHost: string;
  readonly slotHost: (slot: number) => string;
  /** The gateways' name in the cluster's network, below the domain of their certificate. */
  readonly linkHost: (domain: string) => string;
  readonly autoScalingGroup: (slot: number) => string;
  /** IAM's names are the account's, not the region's; so is the hash of the id. */
  readonly roleOf: (slot: number) => string;
}

export function clusterNames(clusterId: string, accountId: string): ClusterNames {
  const prefix = clusterPrefix(clusterId);
  const dnsZone = `${hashOf(clusterId)}.millrace.internal`;
  return {
    prefix,
    bucket: `${prefix}-data-${accountId}`,
    metadataSecrets: {
      password: `${prefix}/metadata-password`,
      url: `${prefix}/metadata-url`,
    },
    linkSecret: (slot) => `${prefix}/link-${slot}`,
    logGroup: `/millrace/${clusterId}`,
    dnsZone,
    bootstrapHost: `bootstrap.${dnsZone}`,
    slotHost: (slot) => `b${slot}.${dnsZone}`,
    linkHost: (domain) => `${hashOf(clusterId)}.${domain}`,
    autoScalingGroup: (slot) => `${prefix}-b${slot}`,
    roleOf: (slot) => `${prefix}-b${slot}`,
  };
}
