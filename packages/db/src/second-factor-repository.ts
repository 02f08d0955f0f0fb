import type { UserId } from "@millrace/domain";
import type { Client } from "./client.ts";

export interface StoredSecondFactor {
  /** Sealed by the identity library. */
  readonly secret: string;
  readonly lockedUntil: Date | undefined;
}

/** How many secrets were sealed again with the secret in use, and how many are still sealed with another. */
export interface Resealed {
  readonly resealed: number;
  readonly left: number;
}

interface SealedRow {
  readonly id: string;
  readonly secret: string;
  readonly backupCodes: string;
}

/** Second factors that are read at a time to seal them again. */
const RESEAL_ROWS = 100;

/** Uses of second factors. The identity library creates, verifies at sign-in and deletes them. */
export class SecondFactorRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Also one whose setup is not finished. */
  async find(userId: UserId): Promise<StoredSecondFactor | undefined> {
    const row = await this.#client.twoFactor.findUnique({ where: { userId } });
    return row ? { secret: row.secret, lockedUntil: row.lockedUntil ?? undefined } : undefined;
  }

  /** Takes the code of time step `step`; false where that code or a later one was accepted before. */
  async takeStep(userId: UserId, step: number): Promise<boolean> {
    const { count } = await this.#client.twoFactor.updateMany({
      where: { userId, OR: [{ lastCodeStep: null }, { lastCodeStep: { lt: step } }] },
      data: { lastCodeStep: step },
    });
    return count === 1;
  }

  /** Counts a wrong code; the `max`th in a row locks the second factor until `lockedUntil`. */
  async countFailure(userId: UserId, max: number, now: Date, lockedUntil: Date): Promise<void> {
    // The count starts again when a lock ends.
    await this.#client.$executeRaw`
      UPDATE two_factor AS t
      SET failed_verification_count = f.count,
        locked_until = CASE WHEN f.count >= ${max}::int THEN ${lockedUntil}::timestamptz END
      FROM (
        SELECT id, 1 + CASE WHEN locked_until <= ${now}::timestamptz THEN 0
          ELSE failed_verification_count END AS count
        FROM two_factor WHERE user_id = ${userId} FOR UPDATE
      ) AS f
      WHERE t.id = f.id`;
  }

  /**
   * Replaces secrets and recovery codes of which one does not begin with `prefix` by what `reseal` makes of them. Those that it
   * throws for, or that change meanwhile, are left.
   */
  async reseal(prefix: string, reseal: (sealed: string) => Promise<string>): Promise<Resealed> {
    let [resealed, left] = [0, 0];
    for (let after = ""; ; ) {
      const rows = await this.#client.twoFactor.findMany({
        where: {
          id: { gt: after },
          NOT: { secret: { startsWith: prefix }, backupCodes: { startsWith: prefix } },
        },
        orderBy: { id: "asc" },
        take: RESEAL_ROWS,
      });
      const last = rows.at(-1);
      if (!last) return { resealed, left };
      after = last.id;
      for (const row of rows) {
        if (await this.#resealRow(row, reseal)) resealed += 1;
        else left += 1;
      }
    }
  }

  async #resealRow(row: SealedRow, reseal: (sealed: string) => Promise<string>): Promise<boolean> {
    const { id, secret, backupCodes } = row;
    const made = await Promise.all([reseal(secret), reseal(backupCodes)]).catch(() => undefined);
    if (!made) return false;
    const { count } = await this.#client.twoFactor.updateMany({
      where: { id, secret, backupCodes },
      data: { secret: made[0], backupCodes: made[1] },
    });
    return count === 1;
  }

  async clearFailures(userId: UserId): Promise<void> {
    await this.#client.twoFactor.updateMany({
      where: { userId },
      data: { failedVerificationCount: 0, lockedUntil: null },
    });
  }
}
