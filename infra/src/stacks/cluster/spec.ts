/**
 * What one tenant's cluster on AWS is made from. Everything that a plan depends on stands here, so
 * that a stack can be synthesized, and planned, without asking AWS.
 */

/**
 * - `running`   all of it;
 * - `paused`    broker slots scaled to zero, everything else stays;
 * - `retained`  what holds data only: volumes, bucket, key and log group;
 * - `purge`     the same, no longer protected: to be applied before it is destroyed.
 */
export type ClusterStackMode = "running" | "paused" | "retained" | "purge";

/** The EBS volume below a slot's write-ahead log. */
export interface WalVolumeSpec {
  readonly type: "gp3" | "io2";
  readonly sizeGib: number;
  readonly iops: number;
  /** MiB/s; gp3 only, null for io2. */
  readonly throughputMibps: number | null;
}

export interface NetworkSpec {
  /** An existing VPC, with a private subnet for each of the stack's zones; absent, one is made. */
  readonly existing?: { readonly vpcId: string; readonly subnetIds: readonly string[] };
  /** IPv4 range of the VPC that is made, or of the existing one. A /16 to /24. */
  readonly cidr: string;
  readonly access: "private" | "endpoint_service";
  /** ARNs that may connect to the endpoint service. */
  readonly allowedPrincipals: readonly string[];
  /** Ranges beside the VPC's own from which Kafka clients may connect. */
  readonly allowedCidrs: readonly string[];
  /** Range of the control plane, which alone reaches the admin listeners. Absent: nobody does. */
  readonly controlPlaneCidr?: string;
}

/** A broker build in the artefact bucket. */
export interface BrokerArtefact {
  readonly bucket: string;
  readonly key: string;
  /** SHA-256 of the file, lower-case hex. */
  readonly sha256: string;
}

export interface ClusterStackSpec {
  readonly mode: ClusterStackMode;
  readonly organizationId: string;
  readonly environmentId: string;
  readonly clusterId: string;
  readonly name: string;
  /** The tenant's labels, which become tags. */
  readonly labels: Readonly<Record<string, string>>;
  /** Twelve digits; the account that the stack is applied in. */
  readonly accountId: string;
  readonly region: string;
  /** One to three zones of the region, by name. Slot n stands in zone n modulo their number. */
  readonly zones: readonly string[];
  /** Broker slots, 1 to 9. */
  readonly slots: number;
  readonly instanceType: string;
  readonly wal: WalVolumeSpec;
  readonly network: NetworkSpec;
  /** Absent: the cluster gets a key of its own. */
  readonly kmsKeyArn?: string;
  readonly artefact: BrokerArtefact;
  /** Broker properties that follow from size, volume and settings. */
  readonly properties: Readonly<Record<string, string>>;
  /** Put on every role that is made. */
  readonly permissionsBoundaryArn: string;
}
