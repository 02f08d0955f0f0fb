import type { Cluster as ClusterShape } from "@millrace/contract";
import { type ClusterView, clusterEtag } from "@millrace/core";
import { bootstrapServers, type Cluster } from "@millrace/domain";

export function presentCluster({ cluster, operationId }: ClusterView): ClusterShape {
  const address = bootstrapServers(cluster);
  return {
    metadata: {
      id: cluster.id,
      created_at: cluster.createdAt.toISOString(),
      updated_at: cluster.updatedAt.toISOString(),
      etag: clusterEtag(cluster),
      labels: { ...cluster.labels },
    },
    spec: {
      name: cluster.name,
      region: cluster.region,
      size: cluster.size,
      environment_id: cluster.environmentId,
    },
    status: {
      phase: publicPhase(cluster),
      conditions: cluster.conditions.map((condition) => ({
        type: condition.type,
        status: condition.status,
        reason: condition.reason,
        message: condition.message,
        last_transition_at: condition.lastTransitionAt,
      })),
      endpoints: address ? [{ name: "kafka", bootstrap_servers: address }] : [],
      observed_revision: cluster.observedRevision,
      ...(operationId !== undefined && { operation_id: operationId }),
    },
  };
}

function publicPhase({ phase }: Cluster): ClusterShape["status"]["phase"] {
  if (phase === "DELETED") throw new Error("a deleted cluster is never shown");
  return phase;
}
