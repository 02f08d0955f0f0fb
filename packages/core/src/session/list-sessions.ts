import type { Principal, UserSession } from "@millrace/domain";
import type { Core } from "../core.ts";

/** Where the caller is signed in, most recently used first; an API key has no sessions. */
export async function listSessions(
  { db, clock }: Core,
  { userId }: Principal,
): Promise<UserSession[]> {
  return userId === undefined ? [] : db.sessions.list(userId, clock.now());
}
