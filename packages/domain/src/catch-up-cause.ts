/** Why a group falls behind, told from what its broker measures. Pure. */
import type { CatchUpMode } from "./catch-up.ts";

/** What keeps a group from catching up, most certain first. */
export const CATCH_UP_CAUSES = [
  "ingress_limit",
  "egress_limit",
  "bucket",
  "skew",
  "consumer",
] as const;
export type CatchUpCause = (typeof CATCH_UP_CAUSES)[number];

/** What a broker's readers have waited for lately. */
export interface ReadPressure {
  /** How many readers waited for a limit at a time, on average, by direction; 0 where none is set. */
  readonly ingressWaiting: number;
  readonly egressWaiting: number;
  readonly bucketReadsPerSecond: number;
  readonly bucketFailedPerSecond: number;
  /** Undefined where the bucket was not read. */
  readonly bucketSecondsMean: number | undefined;
}

/** How a group stands. */
export interface GroupPace {
  readonly mode: CatchUpMode;
  readonly readBytesPerSecond: number;
  readonly partitions: readonly { readonly mode: CatchUpMode }[];
}

/** A reader that waits this share of the time is slowed down by what it waits for. */
const WAITING_SHARE_MIN = 0.25;
/** Of the bucket's reads: fewer failures cost no more than their repetition. */
const FAILED_SHARE_MIN = 0.05;
/** A read takes some tens of milliseconds as a rule, and 4 MiB on a slow day a quarter of a second. */
const BUCKET_SECONDS_MIN = 0.5;
/** Partitions that do not catch up are the exception, not the rule, up to this share of all. */
const SKEW_SHARE_MAX = 0.5;

/**
 * The cause for a group that falls behind; undefined for any other. What the broker waits for comes before
 * what it can only conclude: a consumer is the cause if nothing in the broker delays it. Waiting is not told by
 * group, so a group that reads nothing at all is not among those that wait.
 */
export function catchUpCause(
  { mode, readBytesPerSecond, partitions }: GroupPace,
  pressure: ReadPressure,
): CatchUpCause | undefined {
  if (mode !== "falling_behind") return undefined;
  if (readBytesPerSecond <= 0) return "consumer";
  const { ingressWaiting, egressWaiting } = pressure;
  if (Math.max(ingressWaiting, egressWaiting) >= WAITING_SHARE_MIN) {
    return ingressWaiting > egressWaiting ? "ingress_limit" : "egress_limit";
  }
  if (isBucketSlow(pressure)) return "bucket";
  const behind = partitions.filter((each) => each.mode === "falling_behind").length;
  const read = partitions.filter((each) => each.mode !== "idle").length;
  return read > 1 && behind / read <= SKEW_SHARE_MAX ? "skew" : "consumer";
}

function isBucketSlow(pressure: ReadPressure): boolean {
  const { bucketReadsPerSecond, bucketFailedPerSecond, bucketSecondsMean } = pressure;
  if (bucketReadsPerSecond <= 0) return false;
  if (bucketFailedPerSecond / bucketReadsPerSecond >= FAILED_SHARE_MIN) return true;
  return bucketSecondsMean !== undefined && bucketSecondsMean >= BUCKET_SECONDS_MIN;
}
