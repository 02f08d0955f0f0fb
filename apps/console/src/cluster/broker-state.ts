import type { Cluster } from "@millrace/contract";

/** Whether the broker is known not to answer: to ask it only delays the page. */
export function isBrokerDown({ status }: Pick<Cluster, "status">): boolean {
  return status.phase === "DEGRADED" || status.conditions[0]?.reason === "Recovering";
}

/** When the cluster was paused; undefined while it is not. */
export function pausedSince({ status }: Pick<Cluster, "status">): string | undefined {
  if (status.phase !== "PAUSED") return undefined;
  return status.conditions[0]?.last_transition_at;
}

/** Whether figures of the last seconds are still true. A broker that went down leaves its last ones. */
export function hasLiveFigures({ status }: Pick<Cluster, "status">): boolean {
  return (status.phase === "RUNNING" || status.phase === "UPDATING") && !isBrokerDown({ status });
}
