/** How a user of a cluster proves its password, by the names that clients configure as `sasl.mechanism`. */
export const SCRAM_MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"] as const;
export type ScramMechanism = (typeof SCRAM_MECHANISMS)[number];

/** A user of a cluster, whom Kafka clients sign in as: `User:<name>` in ACLs. */
export interface ClusterUser {
  readonly name: string;
  /** Mechanisms that the broker holds a credential for; each has a password of its own. */
  readonly mechanisms: readonly ScramMechanism[];
}

/** The user that every new cluster on this machine has. Nobody knows its password until it is rotated. */
export const INITIAL_CLUSTER_USER = "admin";
/** The broker's name for the control plane, which signs in with the admin token. No user can have it. */
export const CONTROL_PLANE_USER = "__millrace";

/** A name is part of paths, ACLs and property files, so it needs no escaping in any of them. */
export const CLUSTER_USER_NAME_MAX = 128;
const CLUSTER_USER_NAME_PATTERN = /^[a-zA-Z0-9](?:[a-zA-Z0-9._@-]{0,127})$/;

/** Whom the broker takes clients without credentials for: a super user of local clusters. */
export const ANONYMOUS_USER = "ANONYMOUS";

/** Whether a user may be created with this name. */
export function isClusterUserName(name: string): boolean {
  return name !== ANONYMOUS_USER && CLUSTER_USER_NAME_PATTERN.test(name);
}

/** The broker's bound for users that Kafka's own tools created with other names; in bytes. */
export const KAFKA_USER_NAME_MAX = 256;

/** Chosen passwords need at least as many characters; generated ones have 43. */
export const CLUSTER_PASSWORD_MIN = 16;
export const CLUSTER_PASSWORD_MAX = 256;
/** Printable ASCII: SASLprep (RFC 4013) leaves it as it is, and so does every client. */
export const CLUSTER_PASSWORD_PATTERN = /^[\x20-\x7e]*$/;
