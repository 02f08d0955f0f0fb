import type { Database } from "@millrace/db";
import type { Clock, Cluster, ClusterId } from "@millrace/domain";
import { readyCondition } from "../engine/index.ts";

interface HealthTools {
  readonly db: Database;
  readonly clock: Clock;
}

/** Shows a running cluster as DEGRADED; undefined where it is not running (any more). */
export async function reportDegraded(
  { db, clock }: HealthTools,
  id: ClusterId,
  message: string,
): Promise<Cluster | undefined> {
  return db.clusters.changePhase(id, {
    to: "DEGRADED",
    from: ["RUNNING"],
    conditions: readyCondition(clock, "False", "BrokerDown", message),
  });
}

/** Shows a degraded cluster as RUNNING again; undefined where it is not degraded (any more). */
export async function reportRecovered(
  { db, clock }: HealthTools,
  id: ClusterId,
): Promise<Cluster | undefined> {
  return db.clusters.changePhase(id, {
    to: "RUNNING",
    from: ["DEGRADED"],
    conditions: readyCondition(clock, "True", "Serving", "The broker serves clients."),
  });
}
