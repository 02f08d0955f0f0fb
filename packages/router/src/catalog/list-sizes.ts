import { listSizes as contract, type Size } from "@millrace/contract";
import {
  awsSizing,
  CLUSTER_SIZE_NAMES,
  type ClusterSize,
  estimateMonthly,
  isAwsRegion,
  type Region,
  sizingOf,
  WAL_VOLUME_TYPES,
  walVolumeLimits,
} from "@millrace/domain";
import { presentWal } from "../cluster/present-aws-spec.ts";
import { presentCost } from "../plan/present-plan.ts";
import { procedure } from "../procedure.ts";

export const listSizesProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(({ input }) => ({
    items: CLUSTER_SIZE_NAMES.map((size) => presentSize(size, input.region)),
  }));

/** One broker that nothing special is asked of. */
const PLAIN = { brokers: 1, zones: undefined, aws: undefined, paused: false, retained: false };

function presentSize(size: ClusterSize, region: Region): Size {
  const sizing = sizingOf(size);
  return {
    id: size,
    title: sizing.title,
    memory_bytes: String(sizing.memoryBytes),
    wal_bytes: String(sizing.walBytes),
    wal_cache_bytes: String(sizing.walCacheBytes),
    block_cache_bytes: String(sizing.blockCacheBytes),
    aws: isAwsRegion(region) ? presentAwsSize(size) : null,
    cost: presentCost(estimateMonthly({ ...PLAIN, size, region })),
  };
}

function presentAwsSize(size: ClusterSize): Size["aws"] {
  const { instance, wal } = awsSizing(size);
  return {
    instance_type: instance.type,
    vcpus: instance.vcpus,
    memory_bytes: String(instance.memoryBytes),
    ebs_baseline_bytes_per_second: String(instance.ebsBaselineBytesPerSecond),
    ebs_baseline_iops: instance.ebsBaselineIops,
    network_baseline_bytes_per_second: String(instance.networkBaselineBytesPerSecond),
    wal: presentWal(wal),
    wal_limits: WAL_VOLUME_TYPES.map((type) => {
      const limits = walVolumeLimits(type);
      const { throughputMibps } = limits;
      return {
        type,
        title: limits.title,
        size_gib: { ...limits.sizeGib },
        iops: { min: limits.iops.min, max: Math.min(limits.iops.max, instance.ebsMaxIops) },
        iops_per_gib: limits.iopsPerGib,
        throughput_mibps: throughputMibps ? { ...throughputMibps } : null,
        throughput_mibps_per_iops: limits.throughputPerIops,
      };
    }),
  };
}
