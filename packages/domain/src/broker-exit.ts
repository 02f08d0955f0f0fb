/** How a broker's process ended. */
export interface BrokerExit {
  /** Exit code of `millrace broker`; undefined where the process was killed. */
  readonly code: number | undefined;
  /** The broker's own words. */
  readonly reason: string;
}

/**
 * Exit codes of `millrace broker` after which the next start fails the same way, each with what
 * somebody has to do first. The broker's table of all codes is in its `main.rs`.
 */
const REMEDIES: Readonly<Record<number, string>> = {
  64: "The broker program and the worker do not fit together: install both from the same release.",
  65: "Its metadata, log and bucket do not belong together: do what the reason says, or recover the cluster.",
  78: "Correct its configuration.",
};

/** What has to be done before another start can succeed; undefined where a restart may help. */
export function remedyOf({ code }: BrokerExit): string | undefined {
  return code === undefined ? undefined : REMEDIES[code];
}
