import { DomainError, type Principal, principalKey } from "@millrace/domain";

export type RecordUse = "stream" | "read" | "produce";

interface SlotBounds {
  /** Of one user or API key. */
  readonly perPrincipal: number;
  /** Below what one broker serves, so that one organization's scripts do not lock out its console. */
  readonly perOrganization: number;
  readonly inAll: number;
}

/**
 * A stream holds two sockets and at most one item at a time; a broker serves 32 of them. A read
 * holds an answer of at most 52 MiB until it is sent, a produce request a body of 8 MiB from before
 * it is read until its answer is sent. Eight organizations at least are needed to take all.
 */
const BOUNDS: Readonly<Record<RecordUse, SlotBounds>> = {
  stream: { perPrincipal: 8, perOrganization: 24, inAll: 256 },
  read: { perPrincipal: 3, perOrganization: 4, inAll: 32 },
  produce: { perPrincipal: 3, perOrganization: 4, inAll: 64 },
};
const RETRY_AFTER_SECONDS: Readonly<Record<RecordUse, number>> = {
  stream: 10,
  read: 1,
  produce: 1,
};
const NAMES: Readonly<Record<RecordUse, string>> = {
  stream: "record streams",
  read: "record reads",
  produce: "produce requests",
};

/** Bounds what requests for records are served at a time. */
export class RecordSlots {
  readonly #taken = new Map<string, number>();

  /** Takes a slot; the answer gives it back, once. Throws `rate_limited` where none is free. */
  acquire(use: RecordUse, principal: Principal): () => void {
    const { perPrincipal, perOrganization, inAll } = BOUNDS[use];
    const counted: readonly [key: string, max: number, whose: string][] = [
      [`${use} ${principalKey(principal)}`, perPrincipal, "per user or API key"],
      [`${use} ${principal.organizationId}`, perOrganization, "per organization"],
      [use, inAll, "in this installation"],
    ];
    for (const [key, max, whose] of counted) {
      if ((this.#taken.get(key) ?? 0) >= max) throw tooMany(use, max, whose);
    }
    for (const [key] of counted) this.#change(key, 1);
    let held = true;
    return () => {
      if (held) for (const [key] of counted) this.#change(key, -1);
      held = false;
    };
  }

  #change(key: string, by: 1 | -1): void {
    const count = (this.#taken.get(key) ?? 0) + by;
    if (count > 0) this.#taken.set(key, count);
    else this.#taken.delete(key);
  }
}

function tooMany(use: RecordUse, max: number, whose: string): DomainError {
  const remedy =
    use === "stream" ? "Close another stream, or try again." : "Send fewer requests at a time.";
  return new DomainError("rate_limited", `At most ${max} ${NAMES[use]} ${whose} at a time.`, {
    remedy,
    retryAfterSeconds: RETRY_AFTER_SECONDS[use],
  });
}
