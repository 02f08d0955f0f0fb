import { type Principal, ssoScope } from "@millrace/domain";
import type { Core } from "../core.ts";

/** Ends every session of the caller but the one that asks. An API key has no sessions to end. */
export async function deleteOtherSessions(core: Core, principal: Principal): Promise<void> {
  const { userId, session } = principal;
  await core.db.transaction(async (tx) => {
    if (userId && session) {
      await tx.sessions.removeOthers(userId, session.id, ssoScope(principal));
    }
  });
}
