import { type Cluster, type CostEstimate, estimateMonthly } from "@millrace/domain";

/** What the cluster costs in a month, as far as can be told. */
export function estimateOf(cluster: Cluster): CostEstimate {
  const { region, size, brokers, zones, aws, paused } = cluster;
  const retained = cluster.phase === "PENDING_PURGE";
  return estimateMonthly({ region, size, brokers, zones, aws, paused, retained });
}
