import type { BrokerSlot } from "@millrace/domain";
import { LINKS_MAX } from "./bounds.ts";
import type { Link } from "./link.ts";

/** The links of this gateway: at most one per slot, the newest. */
export class Links {
  readonly #bySlot = new Map<string, Link>();
  readonly #onEnd: (link: Link, reason: string) => void;

  /** `onEnd` is called once for each link that was added. */
  constructor(onEnd: (link: Link, reason: string) => void) {
    this.#onEnd = onEnd;
  }

  get size(): number {
    return this.#bySlot.size;
  }

  get isFull(): boolean {
    return this.size >= LINKS_MAX;
  }

  all(): Link[] {
    return [...this.#bySlot.values()];
  }

  /** The slot's link, where it takes calls. */
  find(slot: BrokerSlot): Link | undefined {
    const link = this.#bySlot.get(keyOf(slot));
    return link?.isOpen ? link : undefined;
  }

  /** Adds a link; it replaces the slot's older one, whose calls end with it. */
  add(link: Link): void {
    const key = keyOf(link.info);
    const older = this.#bySlot.get(key);
    this.#bySlot.set(key, link);
    older?.end("a newer link of the broker has replaced it");
    void link.whenEnded.then((reason) => {
      if (this.#bySlot.get(key) === link) this.#bySlot.delete(key);
      this.#onEnd(link, reason);
    });
  }
}

function keyOf({ clusterId, brokerId }: BrokerSlot): string {
  return `${clusterId} ${brokerId}`;
}
