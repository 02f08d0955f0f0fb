import type { SessionId } from "./id.ts";

/** A session ends so long after the sign-in, however much it is used. */
export const SESSION_DAYS_MAX = 7;
/** A session ends when nobody has used it for so long. */
export const SESSION_IDLE_HOURS_MAX = 24;
/** Sessions of one user that are listed. */
export const SESSIONS_LISTED_MAX = 100;
/** For so long after a proof of identity nobody is asked for another one. */
export const STEP_UP_MINUTES = 15;

/** A browser in which somebody is signed in. */
export interface UserSession {
  readonly id: SessionId;
  /** As the browser named itself at sign-in. */
  readonly userAgent: string;
  /** Where the sign-in came from. */
  readonly clientAddress: string;
  readonly createdAt: Date;
  /** Accurate to one minute. */
  readonly lastUsedAt: Date;
  readonly expiresAt: Date;
}
