import { assertServing, type ClusterId, type Principal, type QuotaUsage } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

/**
 * What clients with a quota used in the last seconds, those nearest to their limit first. Throws `not_found`,
 * `cluster_not_ready`, `broker_unavailable`, and `broker_failed` where the broker is of another version.
 */
export async function getQuotaUsage(
  core: Core,
  principal: Principal,
  id: ClusterId,
): Promise<readonly QuotaUsage[]> {
  const cluster = await requireCluster(core, principal, id);
  assertServing(cluster);
  return atBroker(undefined, async () => (await core.brokerHttp(cluster)).quotaUsage());
}
