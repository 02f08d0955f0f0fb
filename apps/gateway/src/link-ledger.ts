/**
 * Keeps links and database equal. The links are the truth: what the database could not be told is told in a later round, so
 * that a database that is away ends no link. The database decides only which links are to end.
 */
import type { GatewayIdentity, GatewayRepository, LostLink } from "@millrace/db";
import type { Logger } from "pino";
import { DATABASE_MS_MAX, HEARD_INTERVAL_MS, ROUND_INTERVAL_MS } from "./bounds.ts";
import type { Link } from "./link.ts";
import type { Links } from "./links.ts";

interface Lost {
  readonly silentMs: number;
  readonly endedAt: number;
}

export class LinkLedger {
  readonly #gateways: GatewayRepository;
  readonly #identity: GatewayIdentity;
  readonly #links: () => Link[];
  readonly #logger: Logger;
  /** Links whose row is not known to be theirs. */
  readonly #unclaimed = new Set<Link>();
  /**
   * Links that ended, by id, until they are stored. No more than this gateway has had since the database was last there:
   * without it nobody gets a link.
   */
  readonly #lost = new Map<string, Lost>();
  #isRegistered = false;
  #isAway = false;
  #heardAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(
    gateways: GatewayRepository,
    identity: GatewayIdentity,
    links: Links,
    logger: Logger,
  ) {
    this.#gateways = gateways;
    this.#identity = identity;
    this.#links = () => links.all();
    this.#logger = logger;
  }

  /** Does the first round, and then one per second. A database that is away is no failure. */
  async start(): Promise<void> {
    this.#round = this.#runRound();
    await this.#round;
    this.#schedule();
  }

  /** Claims the slot of a new link. */
  async added(link: Link): Promise<void> {
    this.#unclaimed.add(link);
    await this.#claim(link).catch((error: unknown) => this.#failed(error));
  }

  /** Notes that a link has ended. */
  ended(link: Link): void {
    this.#unclaimed.delete(link);
    this.#lost.set(link.info.linkId, { silentMs: link.silentMs, endedAt: performance.now() });
  }

  /** Stores the end of all links, which have ended by now, and that this gateway is no more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#round;
    try {
      await this.#storeLost();
      await inTime(this.#gateways.remove(this.#identity.id));
    } catch (error) {
      this.#failed(error);
    }
  }

  #schedule(): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => {
      this.#round = this.#runRound().finally(() => this.#schedule());
    }, ROUND_INTERVAL_MS);
  }

  async #runRound(): Promise<void> {
    try {
      await inTime(
        this.#isRegistered
          ? this.#gateways.touch(this.#identity)
          : this.#gateways.register(this.#identity),
      );
      this.#isRegistered = true;
      await this.#storeLost();
      // First, so that a claim that fails keeps no revoked link alive.
      await this.#endLinks();
      for (const link of this.#unclaimed) await this.#claim(link);
      await this.#storeHeard();
      if (this.#isAway) this.#logger.info("the database answers again");
      this.#isAway = false;
    } catch (error) {
      this.#failed(error);
    }
  }

  async #claim(link: Link): Promise<void> {
    const { info, ageMs } = link;
    const isNewest = await inTime(this.#gateways.claim(this.#identity.id, { ...info, ageMs }));
    this.#unclaimed.delete(link);
    // Its end may have been stored before its beginning.
    if (link.hasEnded) {
      this.#lost.set(info.linkId, { silentMs: link.silentMs, endedAt: performance.now() });
    }
    if (!isNewest) link.end("the broker has a newer link to another gateway");
  }

  async #storeLost(): Promise<void> {
    if (this.#lost.size === 0) return;
    const now = performance.now();
    const lost: LostLink[] = [...this.#lost].map(([linkId, { silentMs, endedAt }]) => {
      const endedMs = now - endedAt;
      return { linkId, endedMs, silentMs: silentMs + endedMs };
    });
    await inTime(this.#gateways.lost(lost));
    for (const { linkId } of lost) this.#lost.delete(linkId);
  }

  #claimed(): Link[] {
    return this.#links().filter((link) => !this.#unclaimed.has(link));
  }

  async #endLinks(): Promise<void> {
    const links = this.#claimed();
    if (links.length === 0) return;
    const ended = await inTime(this.#gateways.ended(links.map(heldOf)));
    for (const link of links) {
      const why = ended.get(link.info.linkId);
      if (why === "revoked") link.end("the credential was revoked");
      if (why === "replaced") link.end("the broker has a newer link to another gateway");
    }
  }

  async #storeHeard(): Promise<void> {
    const links = this.#claimed();
    if (performance.now() - this.#heardAt < HEARD_INTERVAL_MS || links.length === 0) return;
    await inTime(this.#gateways.heard(links.map(heldOf)));
    this.#heardAt = performance.now();
  }

  /** Once per outage, since every round of it fails. */
  #failed(error: unknown): void {
    if (!this.#isAway) this.#logger.error({ err: error }, "the database does not answer");
    this.#isAway = true;
  }
}

function heldOf({ info, silentMs }: Link) {
  return { linkId: info.linkId, secretHash: info.secretHash, silentMs };
}

/** Fails where the database does not answer in `DATABASE_MS_MAX`. */
export async function inTime<T>(answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const message = `the database did not answer in ${DATABASE_MS_MAX} ms`;
    timer = setTimeout(() => reject(new Error(message)), DATABASE_MS_MAX);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
