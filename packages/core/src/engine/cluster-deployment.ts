import {
  type Cluster,
  desiredTuning,
  type Placement,
  regionFacts,
  sizingOf,
  TUNING_KNOBS,
  TUNING_PROPERTIES,
  walCapacityOf,
} from "@millrace/domain";
import type { ClusterDeployment } from "@millrace/provisioner";

/** What the driver shall make of a cluster. Undefined until the cluster has a placement. */
export function deploymentOf(cluster: Cluster): ClusterDeployment | undefined {
  if (cluster.placement === undefined) return undefined;
  return deploymentAt(cluster, cluster.placement);
}

export function deploymentAt(cluster: Cluster, placement: Placement): ClusterDeployment {
  return {
    clusterId: cluster.id,
    organizationId: cluster.organizationId,
    environmentId: cluster.environmentId,
    name: cluster.name,
    region: cluster.region,
    size: cluster.size,
    brokers: cluster.brokers,
    paused: cluster.paused,
    labels: cluster.labels,
    placement,
    plaintextListener: cluster.plaintextListener,
    walCapacityBytes: walCapacityOf(cluster),
    properties: propertiesOf(cluster),
    ...(cluster.aws && { aws: { ...cluster.aws, zones: zonesOf(cluster) } }),
  };
}

function zonesOf({ region, zones }: Cluster): readonly string[] {
  return regionFacts(region).zones.slice(0, zones);
}

/** Broker properties that follow from a cluster's size and what was asked for beside it. */
function propertiesOf(cluster: Cluster): Record<string, string> {
  const { size, tuning } = cluster;
  const sizing = sizingOf(size);
  const values = desiredTuning(cluster, tuning.overrides);
  // What neither the size nor a tenant has an opinion on stays the broker's own default.
  const asked = TUNING_KNOBS.filter((knob) => knob in tuning.overrides);
  // One of the two may have been asked for beside what the other was set to at the broker, which
  // this file does not know; a broker does not start with a threshold beyond its log cache.
  const uploadThreshold = Math.min(values.upload_threshold_bytes, values.wal_cache_bytes);
  return {
    "s3.wal.cache.size": String(sizing.walCacheBytes),
    "s3.block.cache.size": String(sizing.blockCacheBytes),
    "offsets.topic.num.partitions": String(sizing.offsetsTopicPartitions),
    ...Object.fromEntries(asked.map((knob) => [TUNING_PROPERTIES[knob], String(values[knob])])),
    "s3.wal.upload.threshold": String(uploadThreshold),
  };
}
