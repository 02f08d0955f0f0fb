import type { CatchUpAnswer } from "@millrace/broker-admin";
import { assertServing, type ClusterId, type Principal } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

/**
 * How far each group of a cluster is behind, in its broker's own words. Throws `not_found`,
 * `cluster_not_ready`, `broker_unavailable`, and `broker_failed` where it is of another version.
 */
export async function getCatchUp(
  core: Core,
  principal: Principal,
  id: ClusterId,
): Promise<CatchUpAnswer> {
  const cluster = await requireCluster(core, principal, id);
  assertServing(cluster);
  return atBroker(undefined, async () => (await core.brokerHttp(cluster)).catchUp());
}
