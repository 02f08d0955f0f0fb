/** Whether a benchmark would harm the clients of its cluster. */
import { mebibytes } from "./byte-text.ts";
import { DomainError } from "./error.ts";

/** What a broker says of its storage, in bytes. */
export interface BrokerStorage {
  readonly walCapacityBytes: number;
  readonly walUsedBytes: number;
  /** Until the log is full at the present rate if nothing is uploaded; at most a day. Undefined where a broker does not tell. */
  readonly walSecondsLeft: number | undefined;
  /** Acknowledged, and not in the bucket yet. */
  readonly uploadPendingBytes: number;
  /** Why nothing is uploaded; undefined where uploads run. */
  readonly uploadsWaitFor: string | undefined;
}

/** A benchmark does not start with the write-ahead log fuller than this. */
const WAL_FILL_START_MAX = 0.5;
/** A benchmark is stopped when the log is fuller than this; at 100 % every producer waits. */
const WAL_FILL_RUN_MAX = 0.7;
/** Uploads are behind when this many uploads' worth of data waits. */
const PENDING_UPLOADS_MAX = 2;
const RETRY_AFTER_SECONDS = 30;

/**
 * Throws `benchmark_refused` where a load would harm the cluster's clients: its log is half full, or
 * its uploads do not keep up already.
 */
export function assertRoomForBenchmark(storage: BrokerStorage, uploadThresholdBytes: number): void {
  const { uploadsWaitFor, uploadPendingBytes } = storage;
  if (uploadsWaitFor !== undefined) {
    throw harmful(`Nothing is uploaded to the bucket now: ${uploadsWaitFor}.`);
  }
  const fill = walFill(storage);
  if (fill > WAL_FILL_START_MAX) {
    throw harmful(
      `The write-ahead log is ${percent(fill)} full; a benchmark starts at ${percent(WAL_FILL_START_MAX)} or less.`,
    );
  }
  if (uploadPendingBytes > PENDING_UPLOADS_MAX * uploadThresholdBytes) {
    throw harmful(`Uploads are behind: ${mebibytes(uploadPendingBytes)} wait for the bucket.`);
  }
}

/** Why a running load has to stop for the sake of the cluster's clients; undefined where it may go on. */
export function benchmarkStopReason(storage: BrokerStorage): string | undefined {
  const { uploadsWaitFor } = storage;
  if (uploadsWaitFor !== undefined) {
    return `Stopped to protect other clients: nothing is uploaded to the bucket now: ${uploadsWaitFor}.`;
  }
  const fill = walFill(storage);
  if (fill <= WAL_FILL_RUN_MAX) return undefined;
  return (
    `Stopped to protect other clients: the write-ahead log became ${percent(fill)} full, because ` +
    "uploads did not keep up with the load. Run it again at a lower rate."
  );
}

function harmful(message: string): DomainError {
  return new DomainError("benchmark_refused", message, {
    remedy: "Wait until uploads have caught up, then try again.",
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });
}

function walFill({ walUsedBytes, walCapacityBytes }: BrokerStorage): number {
  return walCapacityBytes === 0 ? 0 : walUsedBytes / walCapacityBytes;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
