import type { Cluster } from "@millrace/contract";

/** Whether no broker is known to answer: to ask only delays the page. Of several, the others answer for one that is down. */
export function isBrokerDown({ status }: Pick<Cluster, "status">): boolean {
  if (status.brokers.length > 1) return false;
  return status.phase === "DEGRADED" || status.conditions[0]?.reason === "Recovering";
}

/** When the cluster was paused; undefined while it is not. */
export function pausedSince({ status }: Pick<Cluster, "status">): string | undefined {
  if (status.phase !== "PAUSED") return undefined;
  return status.conditions[0]?.last_transition_at;
}

/**
 * Whether figures of the last seconds are still true. A broker that went down, or is not connected any more, leaves
 * its last ones.
 */
export function hasLiveFigures({ status }: Pick<Cluster, "status">): boolean {
  const isExpected = status.phase === "RUNNING" || status.phase === "UPDATING";
  const isCutOff = status.brokers.every(({ control_link }) => control_link === "disconnected");
  return isExpected && !isCutOff && !isBrokerDown({ status });
}

/** Brokers that are to run and have no connection to the control plane any more. */
export function brokersWithoutContact({ spec, status }: Pick<Cluster, "spec" | "status">) {
  const isExpected = ["RUNNING", "UPDATING", "DEGRADED"].includes(status.phase) && !spec.paused;
  return isExpected
    ? status.brokers.filter(({ control_link }) => control_link === "disconnected")
    : [];
}

/**
 * Whether the cluster's only broker should serve and does not: several have their metadata elsewhere. A paused cluster can be recovered as well, but nothing
 * says that it has to be: resuming it shows whether its broker starts.
 */
export function needsRecovery({ spec, status }: Pick<Cluster, "spec" | "status">): boolean {
  const isDown = status.phase === "DEGRADED" || status.phase === "FAILED";
  const wasCreated = status.endpoints.length > 0;
  return isDown && wasCreated && !spec.paused && spec.brokers === 1;
}
