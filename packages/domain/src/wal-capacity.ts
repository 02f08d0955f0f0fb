import { awsSizing } from "./aws-size.ts";
import type { AwsSpec } from "./aws-spec.ts";
import { type ClusterSize, sizingOf } from "./size.ts";
import { baselinesOf } from "./wal-volume.ts";

const GIB = 1024 ** 3;

/** What decides the capacity of a cluster's write-ahead log. A `Cluster` is one. */
export interface WalOwner {
  readonly size: ClusterSize;
  readonly aws?: AwsSpec | undefined;
  /** One where it is absent. */
  readonly brokers?: number;
  /** Set when a cluster on this machine is created; a change of the size keeps it. */
  readonly localWalBytes?: number | undefined;
}

/**
 * Capacity of a broker's write-ahead log in bytes. On AWS the volume decides: the log of one of several has all of it, while one
 * that is alone has its metadata on it, too. On this machine the
 * log is formatted for the size that the cluster was created with, and a broker does not open a log
 * of another capacity.
 */
export function walCapacityOf({ size, aws, localWalBytes, brokers = 1 }: WalOwner): number {
  if (aws !== undefined && brokers > 1) return aws.wal.sizeGib * GIB;
  if (aws !== undefined) return baselinesOf(aws.wal, awsSizing(size).instance).walCapacityBytes;
  return localWalBytes ?? sizingOf(size).walBytes;
}
