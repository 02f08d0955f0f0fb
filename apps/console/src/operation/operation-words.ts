/** An operation's kind and state as text. */
import type { Operation } from "@millrace/contract";
import { duration } from "../format/time.ts";

export const OPERATION_TITLES: Record<Operation["kind"], string> = {
  "cluster.create": "Creating the cluster",
  "cluster.update": "Changing the cluster",
  "cluster.pause": "Pausing the cluster",
  "cluster.resume": "Resuming the cluster",
  "cluster.restart": "Restarting brokers",
  "cluster.delete": "Deleting the cluster",
  "cluster.restore": "Restoring the cluster",
  "cluster.purge": "Purging the cluster's data",
  "cluster.reconcile": "Undoing drift",
  "cluster.check_drift": "Checking for drift",
  "cluster.recover": "Recovering the cluster",
  "cluster.benchmark": "Running a benchmark",
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
      return "waiting for approval";
    default:
      if (operation.cancel_requested_at) return "cancelling";
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

/** A half-finished deletion cannot be undone. */
const DELETIONS: readonly Operation["kind"][] = ["cluster.delete", "cluster.purge"];

/** It deletes data, so starting it requires typing the name. */
export function isDeletion({ kind }: Pick<Operation, "kind">): boolean {
  return DELETIONS.includes(kind);
}

/** Whether it can be cancelled. */
export function canCancel({ kind, done, cancel_requested_at }: Operation): boolean {
  return !done && cancel_requested_at === null && !isDeletion({ kind });
}

/**
 * Whether it stopped early and can resume; only the cluster's last operation can.
 *
 * @param latestId the cluster's last operation, undefined where that is not known
 */
export function canRetry({ id, phase }: Operation, latestId: string | undefined): boolean {
  return id === latestId && (phase === "FAILED" || phase === "CANCELLED");
}

export function waitsForApproval({ phase }: Operation): boolean {
  return phase === "WAITING";
}

/** Whether an earlier attempt got past the approval, and so changed resources. */
function wasBegun({ steps }: Operation): boolean {
  const approval = steps.findIndex(({ name }) => name === "approve");
  return steps.slice(approval + 1).some(({ attempt }) => attempt > 0);
}

/** What happens to the cluster if the waiting operation is cancelled. */
export function rejectionText(operation: Operation): string {
  if (wasBegun(operation)) {
    return "An earlier attempt already changed resources. If you cancel, those changes and the requested settings stay, and you can retry.";
  }
  switch (operation.kind) {
    case "cluster.create":
      return "If you cancel, nothing is created. The cluster is marked as failed; you can retry or delete it.";
    case "cluster.update":
      return "If you cancel, nothing changes and the previous settings are restored.";
    case "cluster.pause":
      return "If you cancel, the cluster keeps running.";
    case "cluster.resume":
      return "If you cancel, the cluster stays paused.";
    case "cluster.recover":
      return "If you cancel, nothing is recovered and the broker stays down.";
    case "cluster.reconcile":
      return "If you cancel, the drift stays.";
    default:
      return "If you cancel, nothing is done.";
  }
}
