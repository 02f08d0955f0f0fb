import type { Cluster, ClusterId, ListenerChoice, OperationId, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { originBeforeChange } from "../engine/index.ts";
import { requireCluster } from "./require-cluster.ts";

/** A cluster with the operation at work on it, or the last one that was. */
export interface ClusterView {
  readonly cluster: Cluster;
  readonly operationId: OperationId | undefined;
  /** The listeners that the broker has, where an operation is to change them and has not begun to. */
  readonly listeners?: ListenerChoice | undefined;
}

/** `ClusterView.listeners`. */
export async function listenersBeforeChange(
  { db }: Pick<Core, "db">,
  cluster: Cluster,
): Promise<ListenerChoice | undefined> {
  if (cluster.phase !== "UPDATING") return undefined;
  const origin = originBeforeChange(await db.operations.underWay(cluster.id));
  const plaintextListener = origin?.spec.plaintextListener;
  return plaintextListener === undefined ? undefined : { plaintextListener };
}

/** Throws `not_found`. */
export async function getCluster(
  core: Core,
  principal: Principal,
  id: ClusterId,
): Promise<ClusterView> {
  const cluster = await requireCluster(core, principal, id);
  const latest = await core.db.operations.latestOf([cluster.id]);
  const listeners = await listenersBeforeChange(core, cluster);
  return { cluster, operationId: latest.get(cluster.id), listeners };
}
