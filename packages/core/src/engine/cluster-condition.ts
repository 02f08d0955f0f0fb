import type { Clock, Condition } from "@millrace/domain";

/** The one condition that clusters have today: whether clients are served. */
export function readyCondition(
  clock: Clock,
  status: Condition["status"],
  reason: string,
  message: string,
  detail?: string,
): Condition[] {
  const lastTransitionAt = clock.now().toISOString();
  return [{ type: "Ready", status, reason, message, ...(detail && { detail }), lastTransitionAt }];
}

export function pausedCondition(clock: Clock): Condition[] {
  const message = "The cluster is paused: no broker runs, the data is kept.";
  return readyCondition(clock, "False", "Paused", message);
}
