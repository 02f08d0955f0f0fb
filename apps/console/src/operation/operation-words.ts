/** What an operation does and how it stands, in words. */
import type { Operation } from "@millrace/contract";
import { duration } from "../format/time.ts";

export const OPERATION_TITLES: Record<Operation["kind"], string> = {
  "cluster.create": "Creating the cluster",
  "cluster.update": "Changing the cluster",
  "cluster.pause": "Pausing the cluster",
  "cluster.resume": "Resuming the cluster",
  "cluster.delete": "Deleting the cluster",
  "cluster.restore": "Restoring the cluster",
  "cluster.purge": "Purging the cluster's data",
  "cluster.reconcile": "Undoing the drift",
  "cluster.check_drift": "Checking for drift",
  "cluster.recover": "Recovering the cluster",
};

/** One or two words beside the title. */
export function stateText(operation: Operation): string {
  switch (operation.phase) {
    case "SUCCEEDED":
      return `done${lasted(operation)}`;
    case "FAILED":
      return "failed";
    case "CANCELLED":
      return "cancelled";
    case "WAITING":
      return "waits for approval";
    default:
      if (operation.cancel_requested_at) return "is being cancelled";
      return remaining(operation);
  }
}

function lasted({ started_at, ended_at }: Operation): string {
  if (!started_at || !ended_at) return "";
  const seconds = (Date.parse(ended_at) - Date.parse(started_at)) / 1_000;
  return seconds < 60 ? ` in ${seconds.toFixed(1)} s` : ` in ${duration(seconds)}`;
}

function remaining({ progress }: Operation): string {
  if (progress.eta_seconds === null) return `${progress.percent} %`;
  return `${progress.percent} %, about ${duration(Math.max(1, progress.eta_seconds))} left`;
}

/** Half a deletion is nothing to go back to. */
const DELETIONS: readonly Operation["kind"][] = ["cluster.delete", "cluster.purge"];

/** It ends with something gone for good, so it is begun on a name that was typed and not on a click. */
export function isDeletion({ kind }: Pick<Operation, "kind">): boolean {
  return DELETIONS.includes(kind);
}

/** Somebody may end it before it is through. */
export function canCancel({ kind, done, cancel_requested_at }: Operation): boolean {
  return !done && cancel_requested_at === null && !isDeletion({ kind });
}

/**
 * It ended before it was through, and goes on from there; only the cluster's last one does.
 *
 * @param latestId the cluster's last operation, undefined where that is not known
 */
export function canRetry({ id, phase }: Operation, latestId: string | undefined): boolean {
  return id === latestId && (phase === "FAILED" || phase === "CANCELLED");
}

export function waitsForApproval({ phase }: Operation): boolean {
  return phase === "WAITING";
}

/** Whether an attempt before this one came past the approval: all that is behind it makes or changes. */
function wasBegun({ steps }: Operation): boolean {
  const approval = steps.findIndex(({ name }) => name === "approve");
  return steps.slice(approval + 1).some(({ attempt }) => attempt > 0);
}

/** What becomes of the cluster when what waits for approval is cancelled. */
export function rejectionText(operation: Operation): string {
  if (wasBegun(operation)) {
    return "It was begun before. If you cancel it, what was made so far stays, and the settings stay as they were asked for: it can be retried.";
  }
  switch (operation.kind) {
    case "cluster.create":
      return "If you cancel it, nothing is made: the cluster is shown as failed, to be retried or deleted.";
    case "cluster.update":
      return "If you cancel it, nothing is changed, and the cluster's settings are again what they were.";
    case "cluster.pause":
      return "If you cancel it, the cluster goes on running.";
    case "cluster.resume":
      return "If you cancel it, the cluster stays paused.";
    case "cluster.recover":
      return "If you cancel it, nothing is recovered and the broker stays down.";
    case "cluster.reconcile":
      return "If you cancel it, the drift stays as it is.";
    default:
      return "If you cancel it, nothing is done.";
  }
}
