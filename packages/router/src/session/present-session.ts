import type { Session } from "@millrace/contract";
import type { Principal, UserSession } from "@millrace/domain";

export function presentSession(session: UserSession, caller: Principal): Session {
  return {
    id: session.id,
    current: session.id === caller.session?.id,
    user_agent: session.userAgent,
    client_address: session.clientAddress,
    created_at: session.createdAt.toISOString(),
    last_used_at: session.lastUsedAt.toISOString(),
    expires_at: session.expiresAt.toISOString(),
  };
}
