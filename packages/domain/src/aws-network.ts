/** Who can reach a cluster: its VPC, or also other accounts through an endpoint service. */
export const NETWORK_ACCESS = ["private", "endpoint_service"] as const;
export type NetworkAccess = (typeof NETWORK_ACCESS)[number];

/** Address ranges a cluster admits. One security group rule each; EC2 grants 60 to a group. */
export const ALLOWED_CIDRS_MAX = 20;
/** AWS accounts, users or roles that may connect to the endpoint service. */
export const ALLOWED_PRINCIPALS_MAX = 20;
/** The address range of a VPC that is made for a cluster, where none is asked for. */
const VPC_CIDR_DEFAULT = "10.40.0.0/16";

/** Where a cluster stands: in a VPC of its own, or in subnets of the tenant's. */
export interface AwsNetwork {
  /** Absent: a VPC is made for the cluster, with `cidr`. */
  readonly vpcId: string | undefined;
  /** One in each zone, in the order of the zones; empty where the VPC is made. */
  readonly subnetIds: readonly string[];
  readonly cidr: string;
  readonly access: NetworkAccess;
  readonly allowedPrincipals: readonly string[];
  /** Ranges whose clients may connect, beside those of the VPC itself. */
  readonly allowedCidrs: readonly string[];
}

export interface AwsStorage {
  /** The tenant's key for bucket, volumes, logs and secrets; absent: one is made. */
  readonly kmsKeyArn: string | undefined;
}

/**
 * Services that brokers call through interface endpoints of a VPC that is made for the cluster: it
 * has no way to the internet. Each is paid for by hour and zone, so they stand only in zones with a
 * slot. S3 has a gateway, which is free. KMS, STS and SSM are AWS's own callers here, not brokers'.
 */
export const INTERFACE_ENDPOINT_SERVICES = ["ec2", "logs", "monitoring", "secretsmanager"] as const;

export const DEFAULT_AWS_NETWORK: AwsNetwork = {
  vpcId: undefined,
  subnetIds: [],
  cidr: VPC_CIDR_DEFAULT,
  access: "private",
  allowedPrincipals: [],
  allowedCidrs: [],
};
