import { DomainError, type Principal, principalKey } from "@millrace/domain";

/** Requests that hold a connection or memory for long, by what they hold it for. */
export type SlotUse = "stream" | "read" | "produce" | "watch" | "wait" | "export" | "promql";

interface SlotBounds {
  /** Of one user or API key. */
  readonly perPrincipal: number;
  /** Below what one broker serves, so that one organization's scripts do not lock out its console. */
  readonly perOrganization: number;
  readonly inAll: number;
}

const MIB = 1024 ** 2;
const READ_BYTES_DEFAULT = MIB;
const VALUE_BYTES_DEFAULT = 64 * 1024;

/**
 * Streams and produce requests are counted, reads weigh the MiB that they ask for: a page of a
 * person's has one, a script's at most eight.
 *
 * - A stream holds two sockets and one item; a broker serves 32. A tab has one live tail.
 * - A read holds its answer until it is sent, in JSON up to 6.5 times what was asked for. A caller's
 *   24 are as many ordinary pages, or three of the largest; a broker reads up to 32 MiB at a time.
 * - A produce request holds a body of up to 8 MiB from before it is read until its answer is sent.
 *
 * - A watch of an operation's events, or a request that waits for its end, holds a connection and a listener; a
 *   tab of the console watches one. Terraform waits for as many clusters as it changes at a time.
 * - An export reads up to 100,000 audit events, 500 at a time.
 * - A PromQL query waits for its turn, two at a time in a process; Grafana asks for all panels of a dashboard at once.
 *
 * Eight organizations at least are needed to take all.
 */
const BOUNDS: Readonly<Record<SlotUse, SlotBounds>> = {
  stream: { perPrincipal: 8, perOrganization: 24, inAll: 256 },
  read: { perPrincipal: 24, perOrganization: 32, inAll: 256 },
  produce: { perPrincipal: 4, perOrganization: 8, inAll: 64 },
  watch: { perPrincipal: 16, perOrganization: 48, inAll: 512 },
  wait: { perPrincipal: 32, perOrganization: 64, inAll: 512 },
  export: { perPrincipal: 1, perOrganization: 2, inAll: 16 },
  promql: { perPrincipal: 32, perOrganization: 32, inAll: 256 },
};
const RETRY_AFTER_SECONDS: Readonly<Record<SlotUse, number>> = {
  stream: 10,
  read: 1,
  produce: 1,
  watch: 10,
  wait: 5,
  export: 10,
  promql: 1,
};
const NAMES: Readonly<Record<SlotUse, string>> = {
  stream: "record streams",
  read: "MiB of record reads",
  produce: "produce requests",
  watch: "operation event streams",
  wait: "requests that wait for an operation",
  export: "audit exports",
  promql: "PromQL queries",
};
const REMEDIES: Readonly<Record<SlotUse, string>> = {
  stream: "Close another stream, or try again.",
  read: "Wait for another read to complete, or lower max_bytes.",
  produce: "Wait for another produce request to complete, or send more records per request.",
  watch: "Close another event stream, or try again.",
  wait: "Wait for fewer operations at a time, or read them without `wait`.",
  export: "Wait for the other export to complete.",
  promql: "Wait for another query to complete.",
};

/** Slots of a read that asks for so many bytes. */
export function readSlots({
  max_bytes: page = READ_BYTES_DEFAULT,
  value_bytes_max: value = VALUE_BYTES_DEFAULT,
}: {
  readonly max_bytes?: number | undefined;
  readonly value_bytes_max?: number | undefined;
}): number {
  // A page has one record at least, however large.
  return Math.ceil(Math.max(page, value) / MIB);
}

/** Bounds how many long or large requests are served at a time, in this process. */
export class RequestSlots {
  readonly #taken = new Map<string, number>();

  /** Takes slots; the answer gives them back, once. Throws `rate_limited` where they are not free. */
  acquire(use: SlotUse, principal: Principal, slots = 1): () => void {
    const { perPrincipal, perOrganization, inAll } = BOUNDS[use];
    const counted: readonly [key: string, max: number, whose: string][] = [
      [`${use} ${principalKey(principal)}`, perPrincipal, "per user or API key"],
      [`${use} ${principal.organizationId}`, perOrganization, "per organization"],
      [use, inAll, "in this installation"],
    ];
    for (const [key, max, whose] of counted) {
      if ((this.#taken.get(key) ?? 0) + slots > max) throw tooMany(use, max, whose);
    }
    for (const [key] of counted) this.#change(key, slots);
    let held = true;
    return () => {
      if (held) for (const [key] of counted) this.#change(key, -slots);
      held = false;
    };
  }

  #change(key: string, by: number): void {
    const count = (this.#taken.get(key) ?? 0) + by;
    if (count > 0) this.#taken.set(key, count);
    else this.#taken.delete(key);
  }
}

/**
 * The items; `release` is called when they end or fail, when their reader returns or when `signal` aborts,
 * even before the first one: a generator that was never started would not run its own clean-up.
 */
export function holding<T>(
  items: AsyncIterator<T>,
  signal: AbortSignal,
  release: () => void,
): AsyncIterableIterator<T, void> {
  const end = (): IteratorResult<T, void> => {
    signal.removeEventListener("abort", release);
    release();
    return { done: true, value: undefined };
  };
  signal.addEventListener("abort", release, { once: true });
  if (signal.aborted) release();
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    async next() {
      try {
        const result = await items.next();
        return result.done ? end() : result;
      } catch (error) {
        end();
        throw error;
      }
    },
    async return() {
      const result = end();
      await items.return?.();
      return result;
    },
  };
}

function tooMany(use: SlotUse, max: number, whose: string): DomainError {
  return new DomainError("rate_limited", `At most ${max} ${NAMES[use]} ${whose} at a time.`, {
    remedy: REMEDIES[use],
    retryAfterSeconds: RETRY_AFTER_SECONDS[use],
  });
}
