import { randomBytes } from "node:crypto";

/** 144 bits, 24 characters. */
const PASSWORD_BYTES = 18;

/** A random password of an account that the command line creates. */
export function newPassword(): string {
  return randomBytes(PASSWORD_BYTES).toString("base64url");
}
