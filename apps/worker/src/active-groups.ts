import type { ConsumerGroupSummary } from "@millrace/domain";

/** Longer than consumers wait between two commits: 5 s by default, a minute where they batch. */
const ACTIVE_MS = 90_000;
/** Idle groups of one reading: 200 fill about 100 MiB of the database in the 400 days that readings are kept. */
const IDLE_MAX = 200;

/** What is stored of a group. */
export interface ReadGroup {
  readonly group: ConsumerGroupSummary;
  /** It stopped, and is behind. */
  readonly idle: boolean;
}

/**
 * Tells which consumer groups of one cluster are active: those with members, and those whose committed
 * offsets moved recently (consumers that assign partitions themselves are not members). It holds one
 * entry per group of the broker, which bounds their number.
 */
export class ActiveGroups {
  #seen: ReadonlyMap<string, { committed: bigint; movedAtMs: number }> | undefined;

  /**
   * Takes one reading of all groups, and returns the active ones and the idle ones that are furthest behind: a consumer that
   * stopped is what alerts on lag are for.
   */
  read(groups: readonly ConsumerGroupSummary[], nowMs: number): ReadGroup[] {
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
    const read = seen.map(({ group, movedAtMs }): ReadGroup => {
      return { group, idle: group.members === 0 && nowMs - movedAtMs >= ACTIVE_MS };
    });
    const behind = read.filter(({ group, idle }) => idle && group.lag > 0n);
    behind.sort((a, b) => (a.group.lag < b.group.lag ? 1 : -1));
    return [...read.filter(({ idle }) => !idle), ...behind.slice(0, IDLE_MAX)];
  }
}
