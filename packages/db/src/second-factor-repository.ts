import type { UserId } from "@millrace/domain";
import type { Client } from "./client.ts";

export interface StoredSecondFactor {
  /** Sealed by the identity library. */
  readonly secret: string;
  readonly lockedUntil: Date | undefined;
}

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

  async clearFailures(userId: UserId): Promise<void> {
    await this.#client.twoFactor.updateMany({
      where: { userId },
      data: { failedVerificationCount: 0, lockedUntil: null },
    });
  }
}
