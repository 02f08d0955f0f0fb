import type { ConsumerGroupSummary } from "@millrace/domain";

/** Longer than consumers wait between two commits: 5 s by default, a minute where they batch. */
const ACTIVE_MS = 90_000;

/**
 * Tells which consumer groups of one cluster are active: those with members, and those whose committed
 * offsets moved recently (consumers that assign partitions themselves are not members). It holds one
 * entry per group of the broker, which bounds their number.
 */
export class ActiveGroups {
  #seen: ReadonlyMap<string, { committed: bigint; movedAtMs: number }> | undefined;

  /** Takes one reading of all groups and returns the active ones. */
  filter(groups: readonly ConsumerGroupSummary[], nowMs: number): ConsumerGroupSummary[] {
    const before = this.#seen;
    const seen = groups.map((group) => {
      const committed = group.committedOffsetSum;
      const last = before?.get(group.groupId);
      // A group that appears after the first reading is new; before it, nothing is known.
      const moved = before !== undefined && last?.committed !== committed;
      const movedAtMs = moved ? nowMs : (last?.movedAtMs ?? Number.NEGATIVE_INFINITY);
      return { group, committed, movedAtMs };
    });
    this.#seen = new Map(seen.map(({ group, ...entry }) => [group.groupId, entry]));
    return seen
      .filter(({ group, movedAtMs }) => group.members > 0 || nowMs - movedAtMs < ACTIVE_MS)
      .map(({ group }) => group);
  }
}
