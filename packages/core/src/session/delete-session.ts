import { isId, notFound, type Principal, type SessionId, ssoScope } from "@millrace/domain";
import type { Core } from "../core.ts";

/** Ends one of the caller's own sessions: its next request is refused. Throws `not_found`. */
export async function deleteSession(
  core: Core,
  principal: Principal,
  id: SessionId,
): Promise<void> {
  const { userId } = principal;
  if (userId === undefined || !isId("ses", id)) throw notFound("session", id);
  await core.db.transaction(async (tx) => {
    if (!(await tx.sessions.remove(userId, id, ssoScope(principal)))) throw notFound("session", id);
  });
}
