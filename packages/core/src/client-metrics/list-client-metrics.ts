import type { ClientMetricsFilter, ClusterId, MeasuredClients, Principal } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

export interface ListClientMetricsInput extends ClientMetricsFilter {
  readonly clusterId: ClusterId;
}

/**
 * What clients pushed last of their metrics. Throws `not_found`, `cluster_not_ready`, `broker_unavailable`, and
 * `broker_failed` where the broker is of another version.
 */
export async function listClientMetrics(
  core: Core,
  principal: Principal,
  { clusterId, ...filter }: ListClientMetricsInput,
): Promise<MeasuredClients> {
  const cluster = await requireServingCluster(core, principal, clusterId);
  return atBroker(undefined, async () => (await core.brokerHttp(cluster)).clientMetrics(filter));
}
