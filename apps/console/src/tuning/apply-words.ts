/** When the broker gets the values of a change, in the words of this page. */

/** What is known when the text is shown. */
export interface Delivery {
  /** Whether the running broker has the current values. */
  applied: boolean | undefined;
  /** A paused cluster has no broker: the values are stored, and the broker starts with them on resume. */
  paused: boolean;
}

/** Of a change that was validated and waits for confirmation. */
export function reviewText({ applied, paused }: Delivery): string {
  if (paused) return "Valid. The cluster is paused; the values apply when it is resumed.";
  if (applied) return "Valid. Applied without a restart.";
  return "Valid. The broker does not respond; it gets the values when it is back.";
}

/** Of a change that was stored. */
export function savedText({ applied, paused }: Delivery): string {
  if (applied) return "New values applied.";
  if (paused) return "Saved. The cluster is paused; the values apply when it is resumed.";
  return "Saved. The broker gets the new values when it responds.";
}

/** Of a change that waits for the confirmation of its revert. */
export function revertText(paused: boolean): string {
  if (paused) {
    return "The cluster is paused. The earlier values are saved as a new change and apply when it is resumed.";
  }
  return "The earlier values are restored without a restart, as a new change.";
}

/** Of a change that was reverted. */
export function revertedText(version: number, { applied, paused }: Delivery): string {
  if (applied) return `Change #${version} reverted.`;
  if (paused) return "Saved. The cluster is paused; the earlier values apply when it is resumed.";
  return "Saved. The broker gets the earlier values when it responds.";
}
