/**
 * What the identity library leaves open about codes of second factors: with a session it counts no wrong codes,
 * and it accepts a code as often as it is sent while it is valid.
 */
import { createOTP } from "@better-auth/utils/otp";
import type { SecondFactorRepository } from "@millrace/db";
import type { UserId } from "@millrace/domain";

/** RFC 6238. The library verifies codes of sign-ins with the same step and window. */
const STEP_MS = 30_000;
/** Steps before and after the current one, for clocks that differ. */
const WINDOW_STEPS = 1;
/** As the library counts wrong codes of sign-ins: both share one count and one lock. */
const FAILURES_MAX = 10;
const LOCK_MS = 15 * 60_000;

export type Proof = "right" | "wrong" | "locked";

export class SecondFactors {
  readonly #stored: SecondFactorRepository;
  readonly #open: (sealed: string) => Promise<string>;

  constructor(stored: SecondFactorRepository, open: (sealed: string) => Promise<string>) {
    this.#stored = stored;
    this.#open = open;
  }

  /** Uses up a right code. True where it was used before; a wrong code never was. */
  async isReplay(userId: UserId, code: unknown): Promise<boolean> {
    const found = await this.#stored.find(userId);
    const step = found && (await this.#stepOf(found.secret, code));
    return step !== undefined && !(await this.#stored.takeStep(userId, step));
  }

  /** Verifies a code, once. The tenth wrong one in a row locks the second factor. */
  async verify(userId: UserId, code: unknown): Promise<Proof> {
    const found = await this.#stored.find(userId);
    if (!found) return "wrong";
    const now = new Date();
    if (found.lockedUntil && found.lockedUntil > now) return "locked";
    const step = await this.#stepOf(found.secret, code);
    if (step !== undefined && (await this.#stored.takeStep(userId, step))) {
      await this.#stored.clearFailures(userId);
      return "right";
    }
    const lockedUntil = new Date(now.getTime() + LOCK_MS);
    await this.#stored.countFailure(userId, FAILURES_MAX, now, lockedUntil);
    return "wrong";
  }

  async #stepOf(sealed: string, code: unknown): Promise<number | undefined> {
    if (typeof code !== "string") return undefined;
    const { hotp } = createOTP(await this.#open(sealed));
    const current = Math.floor(Date.now() / STEP_MS);
    for (let step = current - WINDOW_STEPS; step <= current + WINDOW_STEPS; step += 1) {
      if ((await hotp(step)) === code) return step;
    }
    return undefined;
  }
}
