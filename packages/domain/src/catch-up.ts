/**
 * How a group reads a partition: at its end, faster than it grows, behind without gaining, or not
 * at all.
 */
export const CATCH_UP_MODES = ["tail", "catch_up", "falling_behind", "idle"] as const;
export type CatchUpMode = (typeof CATCH_UP_MODES)[number];

/** Who is served first where the network is short, from first to last. */
export const NETWORK_TIERS = [
  "wal_upload",
  "tail_read",
  "catch_up_miss",
  "prefetch",
  "compaction",
] as const;
export type NetworkTier = (typeof NETWORK_TIERS)[number];
