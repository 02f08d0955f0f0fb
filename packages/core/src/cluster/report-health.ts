import type { Database } from "@millrace/db";
import type { CANNOT_START, Clock, Cluster } from "@millrace/domain";
import { readyCondition } from "../engine/index.ts";

interface HealthTools {
  readonly db: Pick<Database, "tenant">;
  readonly clock: Clock;
}

const SERVES = "The cluster serves clients.";

/** What the cluster's condition says of its broker. */
export interface BrokerHealth {
  /** CamelCase, stable, for programs. */
  readonly reason: "BrokerDown" | typeof CANNOT_START;
  readonly message: string;
  /** The broker's own words. */
  readonly detail?: string;
}

/**
 * Shows a running cluster as DEGRADED, or why a degraded one still is; undefined where it is neither
 * (any more).
 */
export async function reportDegraded(
  { db, clock }: HealthTools,
  { id, organizationId, phase }: Pick<Cluster, "id" | "organizationId" | "phase">,
  { reason, message, detail }: BrokerHealth,
): Promise<Cluster | undefined> {
  const conditions = readyCondition(clock, "False", reason, message, detail);
  const { clusters } = db.tenant(organizationId);
  if (phase === "DEGRADED") return clusters.setConditions(id, phase, conditions);
  return clusters.changePhase(id, { to: "DEGRADED", from: ["RUNNING"], conditions });
}

/**
 * Shows a degraded cluster as RUNNING again; undefined where it is not degraded (any more).
 * `restarts` says how often the broker was restarted lately and why.
 */
export async function reportRecovered(
  { db, clock }: HealthTools,
  { id, organizationId }: Pick<Cluster, "id" | "organizationId">,
  restarts?: string,
): Promise<Cluster | undefined> {
  return db.tenant(organizationId).clusters.changePhase(id, {
    to: "RUNNING",
    from: ["DEGRADED"],
    conditions: restarts
      ? readyCondition(clock, "True", "ServingAfterRestarts", `${SERVES} ${restarts}`)
      : readyCondition(clock, "True", "Serving", SERVES),
  });
}

/** The broker has served for long enough: its restarts are no longer worth a word. */
export async function forgetRestarts(
  { db, clock }: HealthTools,
  { id, organizationId }: Pick<Cluster, "id" | "organizationId">,
): Promise<Cluster | undefined> {
  const conditions = readyCondition(clock, "True", "Serving", SERVES);
  return db.tenant(organizationId).clusters.setConditions(id, "RUNNING", conditions);
}
