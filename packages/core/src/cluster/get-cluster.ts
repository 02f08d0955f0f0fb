import type { Repositories } from "@millrace/db";
import type {
  BrokerLink,
  Cluster,
  ClusterId,
  ListenerChoice,
  OperationId,
  Principal,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { originBeforeChange } from "../engine/index.ts";
import { requireCluster } from "./require-cluster.ts";

/** A cluster with the operation at work on it, or the last one that was. */
export interface ClusterView {
  readonly cluster: Cluster;
  readonly operationId: OperationId | undefined;
  /** The listeners and brokers that there are, where an operation is to change them and has not begun to. */
  readonly listeners?: Partial<ListenerChoice> | undefined;
  /** Of the brokers that have connected so far. */
  readonly links?: readonly BrokerLink[] | undefined;
}

/** `ClusterView.listeners` of each of these clusters that has them. */
export async function listenersBeforeChange(
  { operations }: Pick<Repositories, "operations">,
  clusters: readonly Cluster[],
): Promise<Map<ClusterId, Partial<ListenerChoice>>> {
  const updating = clusters.filter(({ phase }) => phase === "UPDATING").map(({ id }) => id);
  const listeners = new Map<ClusterId, Partial<ListenerChoice>>();
  if (updating.length === 0) return listeners;
  for (const [id, operation] of await operations.underWayOf(updating)) {
    const { plaintextListener, brokers } = originBeforeChange(operation)?.spec ?? {};
    listeners.set(id, {
      ...(plaintextListener !== undefined && { plaintextListener }),
      ...(brokers !== undefined && { brokers }),
    });
  }
  return listeners;
}

/** Throws `not_found`. */
export async function getCluster(
  core: Core,
  principal: Principal,
  id: ClusterId,
): Promise<ClusterView> {
  // One transaction: each of its own would cost three statements more.
  return core.db.transaction(async (tx) => {
    const cluster = await requireCluster({ db: tx }, principal, id);
    const latest = await tx.operations.latestOf([cluster.id]);
    const listeners = await listenersBeforeChange(tx, [cluster]);
    const links = await tx.brokerLinks.list([cluster.id]);
    return { cluster, operationId: latest.get(id), listeners: listeners.get(id), links };
  });
}
