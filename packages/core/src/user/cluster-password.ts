import { randomBytes } from "node:crypto";

/** 256 bits: nobody guesses it, however few iterations the stored credential has. */
const PASSWORD_BYTES = 32;

/** A new password of 43 letters, digits, hyphens and underscores, which needs no quoting anywhere. */
export function newClusterPassword(): string {
  return randomBytes(PASSWORD_BYTES).toString("base64url");
}

/** A user whose password was set; `password` is what the caller does not know yet. */
export interface WithPassword<T> {
  readonly user: T;
  readonly password: string | undefined;
}
