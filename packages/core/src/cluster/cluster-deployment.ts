import { type Cluster, type ClusterSize, type Placement, sizingOf } from "@millrace/domain";
import type { ClusterDeployment } from "@millrace/provisioner";

/** What the driver shall make of a cluster. Undefined until the cluster has a placement. */
export function deploymentOf(cluster: Cluster): ClusterDeployment | undefined {
  if (cluster.placement === undefined) return undefined;
  return deploymentAt(cluster, cluster.placement);
}

export function deploymentAt(cluster: Cluster, placement: Placement): ClusterDeployment {
  return {
    clusterId: cluster.id,
    placement,
    walCapacityBytes: sizingOf(cluster.size).walBytes,
    properties: propertiesOf(cluster.size),
  };
}

/** Broker properties that follow from a cluster's size. */
function propertiesOf(size: ClusterSize): Record<string, string> {
  const sizing = sizingOf(size);
  return {
    "s3.wal.cache.size": String(sizing.walCacheBytes),
    "s3.wal.upload.threshold": String(sizing.uploadThresholdBytes),
    "s3.block.cache.size": String(sizing.blockCacheBytes),
    "offsets.topic.num.partitions": String(sizing.offsetsTopicPartitions),
  };
}
