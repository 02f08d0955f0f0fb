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
  const { userId, impersonation } = principal;
  // Where a member is signed in is not the platform operator's business.
  return userId === undefined || impersonation
    ? []
    : db.sessions.list(userId, clock.now(), ssoScope(principal));
}
