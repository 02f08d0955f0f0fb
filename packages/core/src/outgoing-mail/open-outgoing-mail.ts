import {
  DomainError,
  isId,
  isPending,
  notFound,
  type OutgoingMail,
  type OutgoingMailId,
  type Principal,
} from "@millrace/domain";
import { assertUnlimited } from "../api-key/assert-no-wider.ts";
import type { Core } from "../core.ts";
import { assertCovers } from "../member/assert-covers.ts";

const ACTION = "read the mail of an invitation";

/**
 * The mail with its text, which is removed from the database: it can be read once. Throws `not_found`;
 * `mail_text_unavailable` where it was read, or where its invitation was accepted or revoked, or has expired;
 * `forbidden` where the invitation grants more than the caller has.
 */
export async function openOutgoingMail(
  core: Core,
  principal: Principal,
  id: OutgoingMailId,
): Promise<{ mail: OutgoingMail; text: string }> {
  const { organizationId } = principal;
  const now = core.clock.now();
  assertUnlimited(principal, ACTION);
  return await core.db.transaction(async (tx) => {
    const found = isId("mai", id) ? await tx.outgoingMails.get(organizationId, id) : undefined;
    if (!found) throw notFound("mail", id);
    const invitation = await tx.invitations.get(organizationId, found.invitationId);
    if (!invitation || !isPending(invitation, now)) throw unavailable("The invitation has ended.");
    assertCovers(principal, invitation.role, ACTION);
    const taken = await tx.outgoingMails.takeText(organizationId, id, now);
    if (!taken) throw unavailable("The text has already been read.");
    // Within the transaction: what cannot be opened is not removed.
    const text = core.mailTexts.open(taken, [organizationId, id]);
    if (text === undefined) throw unavailable("The installation's secret has changed.");
    return { mail: { ...found.mail, openedAt: now }, text };
  });
}

function unavailable(message: string): DomainError {
  return new DomainError("mail_text_unavailable", message, { remedy: "Create a new invitation." });
}
