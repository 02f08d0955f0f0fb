import type { Invitation, InvitationId, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { requireInvitation } from "./require-invitation.ts";

/** A pending invitation. Throws `not_found`. */
export async function getInvitation(
  core: Core,
  principal: Principal,
  id: InvitationId,
): Promise<Invitation> {
  return requireInvitation(core.db, principal, id, core.clock.now());
}
