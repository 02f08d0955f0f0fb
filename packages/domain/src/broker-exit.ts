/** How a broker's process ended. */
export interface BrokerExit {
  /** Exit code of `millrace broker`; undefined where the process was killed, 0 where it was asked to stop. */
  readonly code: number | undefined;
  /** The broker's own words. */
  readonly reason: string;
}

/**
 * Exit codes of `millrace broker` after which the next start fails the same way, each with what is
 * wrong and what somebody has to do. The broker's table of all codes is in its `main.rs`.
 */
const REMEDIES: Readonly<Record<number, string>> = {
  64: "The broker program does not fit the worker. Install both from the same release, then pause and resume the cluster.",
  65: "The broker's metadata, write-ahead log and bucket do not belong together, or one is missing. Choose Recover to rebuild the metadata from the bucket. Or restore the missing files, then pause and resume the cluster.",
  78: "The broker rejects its configuration. Correct it, then pause and resume the cluster.",
};

/** What has to be done before another start can succeed; undefined where a restart may help. */
export function remedyOf({ code }: BrokerExit): string | undefined {
  return code === undefined ? undefined : REMEDIES[code];
}
