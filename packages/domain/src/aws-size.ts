import type { AwsDatabaseClass } from "./aws-database.ts";
import { AWS_INSTANCES, type AwsInstance } from "./aws-instance.ts";
import type { ClusterSize } from "./size.ts";
import type { WalVolume } from "./wal-volume.ts";

interface AwsSizing {
  readonly instance: AwsInstance;
  /** The volume of a slot where nothing else is asked for: no more than what its size includes. */
  readonly wal: WalVolume;
  /** What the metadata database of several brokers runs on. */
  readonly metadata: AwsDatabaseClass;
}

/**
 * What each size is on AWS: Graviton, and memory for the broker (`size.ts`) with at least two GiB
 * left for the system and the page cache.
 */
const AWS_SIZES: Readonly<Record<ClusterSize, AwsSizing>> = {
  dev: {
    instance: AWS_INSTANCES["t4g.medium"],
    wal: { type: "gp3", sizeGib: 10, iops: 3000, throughputMibps: 125 },
    metadata: "db.t4g.small",
  },
  small: {
    instance: AWS_INSTANCES["m7g.large"],
    wal: { type: "gp3", sizeGib: 20, iops: 3000, throughputMibps: 125 },
    metadata: "db.t4g.medium",
  },
  medium: {
    instance: AWS_INSTANCES["r7g.xlarge"],
    wal: { type: "gp3", sizeGib: 40, iops: 3000, throughputMibps: 125 },
    metadata: "db.m7g.large",
  },
};

/** What `size` is on AWS. */
export function awsSizing(size: ClusterSize): AwsSizing {
  return AWS_SIZES[size];
}
