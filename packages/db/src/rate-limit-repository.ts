import { newId } from "@millrace/domain";
import type { Client } from "./client.ts";

/** Counts of what somebody does, in windows of time; the database adds, so processes agree. */
export class RateLimitRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /**
   * Counts one use of `key` at `nowMs`. A window begins with the first use after the one before has
   * ended; the count within it, this use included.
   */
  async count(key: string, windowMs: number, nowMs: number): Promise<number> {
    const [row] = await this.#client.$queryRaw<{ count: number }[]>`
      INSERT INTO rate_limit AS r (id, key, count, last_request)
      VALUES (${newId("rlm")}, ${key}, 1, ${nowMs}::bigint)
      ON CONFLICT (key) DO UPDATE SET
        count = CASE WHEN r.last_request <= ${nowMs - windowMs}::bigint THEN 1 ELSE r.count + 1 END,
        last_request = CASE WHEN r.last_request <= ${nowMs - windowMs}::bigint
          THEN excluded.last_request ELSE r.last_request END
      RETURNING count`;
    return row?.count ?? 1;
  }

  /** The count of the window that is open at `nowMs`. */
  async current(key: string, windowMs: number, nowMs: number): Promise<number> {
    const row = await this.#client.rateLimit.findUnique({ where: { key } });
    if (row === null || row.lastRequest <= BigInt(nowMs - windowMs)) return 0;
    return row.count;
  }

  /** Removes counts whose window began before `ms`; better-auth's are among them. */
  async deleteBefore(ms: number): Promise<number> {
    const { count } = await this.#client.rateLimit.deleteMany({
      where: { lastRequest: { lt: BigInt(ms) } },
    });
    return count;
  }
}
