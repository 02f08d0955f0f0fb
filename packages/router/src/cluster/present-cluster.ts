import type { Cluster as ClusterShape } from "@millrace/contract";
import { type ClusterView, clusterEtag, estimateOf } from "@millrace/core";
import {
  type BrokerLink,
  brokerIdsOf,
  type Cluster,
  endpointsOf,
  providerOf,
  walCapacityOf,
} from "@millrace/domain";
import { presentNetwork, presentStorage, presentWal } from "./present-aws-spec.ts";

export function presentCluster(view: ClusterView): ClusterShape {
  const { cluster } = view;
  return {
    metadata: {
      id: cluster.id,
      created_at: cluster.createdAt.toISOString(),
      updated_at: cluster.updatedAt.toISOString(),
      etag: clusterEtag(cluster),
      revision: cluster.revision,
      labels: { ...cluster.labels },
    },
    spec: presentSpec(cluster),
    status: presentStatus(view),
  };
}

function presentSpec(cluster: Cluster): ClusterShape["spec"] {
  const { aws } = cluster;
  return {
    name: cluster.name,
    region: cluster.region,
    size: cluster.size,
    environment_id: cluster.environmentId,
    deletion_protection: cluster.deletionProtection,
    plaintext_listener: cluster.plaintextListener,
    brokers: cluster.brokers,
    zones: cluster.zones,
    paused: cluster.paused,
    wal: aws ? presentWal(aws.wal) : null,
    network: aws ? presentNetwork(aws.network) : null,
    storage: aws ? presentStorage(aws.storage) : null,
  };
}

function presentStatus({
  cluster,
  operationId,
  listeners,
  links = [],
}: ClusterView): ClusterShape["status"] {
  const now = { ...cluster, ...listeners };
  return {
    phase: publicPhase(cluster),
    provider: providerOf(cluster.region),
    conditions: cluster.conditions.map((condition) => ({
      type: condition.type,
      status: condition.status,
      reason: condition.reason,
      message: condition.message,
      ...(condition.detail !== undefined && { detail: condition.detail }),
      last_transition_at: condition.lastTransitionAt,
    })),
    endpoints: endpointsOf(now).map(({ name, protocol, bootstrapServers }) => ({
      name,
      protocol,
      bootstrap_servers: bootstrapServers,
    })),
    brokers: brokerIdsOf(now).map((brokerId) =>
      presentBroker(
        cluster,
        brokerId,
        links.find((link) => link.brokerId === brokerId),
      ),
    ),
    observed_revision: cluster.observedRevision,
    purge_at: cluster.purgeAt?.toISOString() ?? null,
    drift: cluster.drift.status,
    wal_capacity_bytes: String(walCapacityOf(cluster)),
    estimated_monthly_cost_usd: estimateOf(cluster).total,
    ...(operationId !== undefined && { operation_id: operationId }),
  };
}

/** A paused cluster runs no broker: a link that is open still ends in a moment. */
export function presentBroker(
  { phase }: Cluster,
  brokerId: number,
  link: BrokerLink | undefined,
): ClusterShape["status"]["brokers"][number] {
  if (link === undefined) return { broker_id: brokerId, control_link: "never", since: null };
  const state = phase === "PAUSED" ? "disconnected" : link.state;
  const since = state === "connected" ? link.since : link.lastHeardAt;
  return { broker_id: brokerId, control_link: state, since: since.toISOString() };
}

function publicPhase({ phase }: Cluster): ClusterShape["status"]["phase"] {
  if (phase === "DELETED") throw new Error("a deleted cluster is never shown");
  return phase;
}
