import type { ClusterId, OperationId, Principal } from "@millrace/domain";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

/** A worker ends a drift check within this time; if not, the caller reads `cluster_busy`. */
const END_MS_MAX = 10_000;
const POLL_INTERVAL_MS = 500;

/**
 * Cancels the drift check under way on the cluster, if any: drift checks are automatic, and must not
 * make a request fail. Throws `not_found`.
 */
export async function cancelDriftCheck(
  core: Core,
  principal: Principal,
  clusterId: ClusterId,
): Promise<void> {
  const cluster = await requireCluster(core, principal, clusterId);
  // Without the cluster's lock: a drift check that records its result holds its own row, then takes
  // the cluster's.
  const asked = await core.db.preparation(async (tx) => {
    const busy = await tx.operations.underWay(cluster.id);
    if (busy?.kind !== "cluster.check_drift") return undefined;
    return (await tx.operations.requestCancel(busy.id)) === "asked" ? busy.id : undefined;
  });
  if (asked !== undefined) await waitForEnd(core, asked);
}

async function waitForEnd({ db }: Core, id: OperationId): Promise<void> {
  const until = performance.now() + END_MS_MAX;
  while (performance.now() < until && !(await db.operations.load(id))?.done) {
    await db.operationSignal.wait(id, POLL_INTERVAL_MS);
  }
}
