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
}
