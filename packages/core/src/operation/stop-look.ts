import type { ClusterId, OperationId, Principal } from "@millrace/domain";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

/** A worker ends a look within this time; where it does not, the caller reads `cluster_busy`. */
const END_MS_MAX = 10_000;
const LOOK_AGAIN_MS = 500;

/**
 * Ends a look for drift that is under way on the cluster, if one is: looks come by themselves, and
 * nothing that somebody asks for is refused for one. Throws `not_found`.
 */
export async function stopLook(
  core: Core,
  principal: Principal,
  clusterId: ClusterId,
): Promise<void> {
  const cluster = await requireCluster(core, principal, clusterId);
  // Without the cluster's lock: a look that records what it found holds its own row and takes the
  // cluster's then.
  const asked = await core.db.transaction(async (tx) => {
    const busy = await tx.operations.underWay(cluster.id);
    if (busy?.kind !== "cluster.check_drift") return undefined;
    return (await tx.operations.requestCancel(busy.id)) === "asked" ? busy.id : undefined;
  });
  if (asked !== undefined) await waitForEnd(core, asked);
}

async function waitForEnd({ db }: Core, id: OperationId): Promise<void> {
  const until = performance.now() + END_MS_MAX;
  while (performance.now() < until && !(await db.operations.load(id))?.done) {
    await db.operationSignal.wait(id, LOOK_AGAIN_MS);
  }
}
