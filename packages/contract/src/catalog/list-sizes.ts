import { CLUSTER_SIZE_NAMES, REGIONS, WAL_VOLUME_TYPES } from "@millrace/domain";
import { z } from "zod";
import { WalVolume } from "../cluster/aws-spec.ts";
import { defineContract } from "../contract.ts";
import { int64 } from "../field.ts";
import { CostEstimate } from "../plan/cost-estimate.ts";

const Range = z.object({ min: z.int(), max: z.int() }).meta({ id: "Range" });

const WalVolumeLimits = z
  .object({
    type: z.enum(WAL_VOLUME_TYPES),
    title: z.string(),
    size_gib: Range,
    iops: Range,
    iops_per_gib: z.int().meta({ description: "Maximum IOPS per GiB" }),
    throughput_mibps: Range.nullable(),
    throughput_mibps_per_iops: z.number().meta({ description: "Maximum MiB/s per IOPS" }),
  })
  .meta({ id: "WalVolumeLimits" });

const AwsSize = z
  .object({
    instance_type: z.string(),
    vcpus: z.int(),
    memory_bytes: int64,
    ebs_baseline_bytes_per_second: int64,
    ebs_baseline_iops: z.int(),
    network_baseline_bytes_per_second: int64,
    wal: WalVolume.meta({ description: "Default volume" }),
    wal_limits: z.array(WalVolumeLimits),
  })
  .meta({ id: "AwsSize" });

export const Size = z
  .object({
    id: z.enum(CLUSTER_SIZE_NAMES),
    title: z.string(),
    memory_bytes: int64,
    wal_bytes: int64.meta({ description: "For the region local" }),
    wal_cache_bytes: int64,
    block_cache_bytes: int64,
    aws: AwsSize.nullable().meta({ description: "null for the region local" }),
    cost: CostEstimate.meta({ description: "Cost of one broker in the region" }),
  })
  .meta({ id: "Size" });
export type Size = z.infer<typeof Size>;

export const listSizes = defineContract({
  name: "size.list",
  method: "GET",
  path: "/v1/sizes",
  summary: "List cluster sizes",
  description:
    "Sizes of a region, smallest first, with their AWS instance, volume limits and cost.",
  tag: "Catalog",
  permission: "catalog:read",
  successStatus: 200,
  query: { region: z.enum(REGIONS).default("local") },
  response: z.object({ items: z.array(Size) }).meta({ id: "SizeList" }),
});
