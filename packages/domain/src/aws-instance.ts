const GIB = 1024 ** 3;
/** AWS states bandwidths in Mbit/s, decimal. */
const MBIT = 1_000_000 / 8;

/** An EC2 instance type, as far as a broker depends on it. */
export interface AwsInstance {
  readonly type: AwsInstanceType;
  readonly vcpus: number;
  readonly memoryBytes: number;
  /** What it sustains to all of its volumes; more is granted for half an hour a day. */
  readonly ebsBaselineBytesPerSecond: number;
  readonly ebsBaselineIops: number;
  /** The most that it ever does to its volumes. */
  readonly ebsMaxIops: number;
  /** What it sustains in each direction of its network. */
  readonly networkBaselineBytesPerSecond: number;
}

/** Instance types that brokers run on; each region's prices have each. */
const AWS_INSTANCE_TYPES = ["t4g.medium", "m7g.large", "r7g.xlarge"] as const;
export type AwsInstanceType = (typeof AWS_INSTANCE_TYPES)[number];

/** Source: Amazon EC2 Instance Types, "Amazon EBS specifications" and "Network specifications". */
export const AWS_INSTANCES = {
  "t4g.medium": {
    type: "t4g.medium",
    vcpus: 2,
    memoryBytes: 4 * GIB,
    ebsBaselineBytesPerSecond: 347 * MBIT,
    ebsBaselineIops: 2000,
    ebsMaxIops: 11_800,
    networkBaselineBytesPerSecond: 256 * MBIT,
  },
  "m7g.large": {
    type: "m7g.large",
    vcpus: 2,
    memoryBytes: 8 * GIB,
    ebsBaselineBytesPerSecond: 630 * MBIT,
    ebsBaselineIops: 3600,
    ebsMaxIops: 40_000,
    networkBaselineBytesPerSecond: 937 * MBIT,
  },
  "r7g.xlarge": {
    type: "r7g.xlarge",
    vcpus: 4,
    memoryBytes: 32 * GIB,
    ebsBaselineBytesPerSecond: 1250 * MBIT,
    ebsBaselineIops: 6000,
    ebsMaxIops: 40_000,
    networkBaselineBytesPerSecond: 1876 * MBIT,
  },
} as const satisfies Record<AwsInstanceType, AwsInstance>;
