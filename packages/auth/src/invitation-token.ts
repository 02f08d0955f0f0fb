import { BearerSecrets } from "./bearer-secret.ts";

const tokens = new BearerSecrets("mri_");

/** The token is shown once; what is stored is its hash. */
export function newInvitationToken(): { token: string; hash: Uint8Array<ArrayBuffer> } {
  const { secret, hash } = tokens.create();
  return { token: secret, hash };
}

/** What the token is stored and found by; undefined for anything that is no invitation's token. */
export function invitationTokenHash(token: string): Uint8Array<ArrayBuffer> | undefined {
  return tokens.hash(token);
}
