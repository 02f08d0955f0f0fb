import { createHash, randomBytes } from "node:crypto";

/** Begins every token, so that scanners of leaked credentials and people recognise it. */
const PREFIX = "mri_";
/** 256 random bits need no slow hash: nobody guesses them, salted or not. */
const TOKEN_BYTES = 32;
const TOKEN = /^mri_[A-Za-z0-9_-]{43}$/;

/** The token is shown once; what is stored is its hash. */
export function newInvitationToken(): { token: string; hash: Uint8Array<ArrayBuffer> } {
  const token = `${PREFIX}${randomBytes(TOKEN_BYTES).toString("base64url")}`;
  return { token, hash: hashOf(token) };
}

/** What the token is stored and found by; undefined for anything that is no token of ours. */
export function invitationTokenHash(token: string): Uint8Array<ArrayBuffer> | undefined {
  return TOKEN.test(token) ? hashOf(token) : undefined;
}

function hashOf(token: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(createHash("sha256").update(token).digest());
}
