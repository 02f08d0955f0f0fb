const MIB = 1024 ** 2;
const GIB = 1024 ** 3;

/** What a cluster of one size may use on its machine. All figures in bytes. */
export interface ClusterSizing {
  readonly title: string;
  /** What the broker is meant to use in all; its caches get a part of it. */
  readonly memoryBytes: number;
  readonly walBytes: number;
  /** Log cache: records that are durable in the WAL but not uploaded yet, and the hot tail. */
  readonly walCacheBytes: number;
  /** Upload to object storage starts at this much unuploaded data. */
  readonly uploadThresholdBytes: number;
  /** Block cache: data read back from object storage by catch-up consumers. */
  readonly blockCacheBytes: number;
  readonly offsetsTopicPartitions: number;
}

/**
 * Sizes a tenant can ask for. The upload threshold is at most a quarter of the log cache, because the
 * broker ignores a larger one: an upload, the block that fills meanwhile and reads of the tail share
 * the cache.
 */
const CLUSTER_SIZES = {
  dev: {
    title: "Development",
    memoryBytes: GIB,
    walBytes: 256 * MIB,
    walCacheBytes: 256 * MIB,
    uploadThresholdBytes: 64 * MIB,
    blockCacheBytes: 128 * MIB,
    offsetsTopicPartitions: 8,
  },
  small: {
    title: "Small",
    memoryBytes: 4 * GIB,
    walBytes: 2 * GIB,
    walCacheBytes: 768 * MIB,
    uploadThresholdBytes: 192 * MIB,
    blockCacheBytes: 512 * MIB,
    offsetsTopicPartitions: 16,
  },
  medium: {
    title: "Medium",
    memoryBytes: 16 * GIB,
    walBytes: 8 * GIB,
    walCacheBytes: 2 * GIB,
    uploadThresholdBytes: 500 * MIB,
    blockCacheBytes: 2 * GIB,
    offsetsTopicPartitions: 50,
  },
} as const satisfies Record<string, ClusterSizing>;

export type ClusterSize = keyof typeof CLUSTER_SIZES;
export const CLUSTER_SIZE_NAMES = Object.keys(CLUSTER_SIZES) as [ClusterSize, ...ClusterSize[]];

/** The sizing of `size`, widened to the interface so that callers do not depend on its literals. */
export function sizingOf(size: ClusterSize): ClusterSizing {
  return CLUSTER_SIZES[size];
}
