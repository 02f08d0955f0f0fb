import { openMetricsText } from "@millrace/broker-admin";
import { assertServing, type ClusterId, type Principal } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

/**
 * What a cluster's brokers count now, as OpenMetrics text. Throws `not_found`, `cluster_not_ready`,
 * `broker_unavailable`, and `broker_failed` where the broker's text cannot be read.
 */
export async function getPrometheusMetrics(
  core: Core,
  principal: Principal,
  id: ClusterId,
): Promise<string> {
  const cluster = await requireCluster(core, principal, id);
  assertServing(cluster);
  return atBroker(undefined, async () => {
    return openMetricsText(await (await core.brokerHttp(cluster)).brokerMetrics());
  });
}
