import type { Transaction } from "@millrace/db";
import { type Cluster, DomainError, type TuningChange } from "@millrace/domain";

/** Throws `tuning_changed_since` where a later change touched a setting of `change`. Within a transaction that holds the lock. */
export async function assertNotChangedSince(
  tx: Pick<Transaction, "tuning">,
  cluster: Cluster,
  change: TuningChange,
): Promise<void> {
  const knobs = change.changes.map(({ knob }) => knob);
  const later = await tx.tuning.lastChangeOf(cluster.id, knobs, change.version);
  if (later === undefined) return;
  if (later.reverts?.id === change.id) {
    throw new DomainError(
      "tuning_changed_since",
      `Change ${change.version} was reverted by change ${later.version} already.`,
      { remedy: `Nothing is left to do. To restore its values, revert change ${later.version}.` },
    );
  }
  const both = later.changes.map(({ knob }) => knob).filter((knob) => knobs.includes(knob));
  throw new DomainError(
    "tuning_changed_since",
    `Change ${later.version} has changed ${both.join(", ")} since change ${change.version}.`,
    {
      remedy: `Revert change ${later.version} first, or update the tuning with the values you want.`,
    },
  );
}
