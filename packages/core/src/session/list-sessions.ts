import { type Principal, ssoScope, type UserSession } from "@millrace/domain";
import type { Core } from "../core.ts";

/**
 * Where the caller is signed in, most recently used first; an API key has no sessions. A session by single
 * sign-on sees its kind alone.
 */
export async function listSessions(
  { db, clock }: Core,
  principal: Principal,
): Promise<UserSession[]> {
  const { userId } = principal;
  return userId === undefined ? [] : db.sessions.list(userId, clock.now(), ssoScope(principal));
}
