import type { Transaction } from "@millrace/db";
import { type Invitation, newId } from "@millrace/domain";
import type { Core } from "../core.ts";

/**
 * Writes the mail of an invitation, in the transaction that makes the invitation. The database gets the text sealed:
 * whoever reads the database alone cannot accept anything.
 */
export async function writeInvitationMail(
  { mailTexts, consoleUrl }: Core,
  tx: Transaction,
  { id: invitationId, organizationId, email, expiresAt }: Invitation,
  token: string,
): Promise<void> {
  const id = newId("mai");
  const name = (await tx.organizations.get(organizationId))?.name ?? "";
  const link = new URL("/invitation", consoleUrl);
  link.hash = token;
  const text = [
    `You are invited to join ${name} on Millrace.`,
    `Open this link to accept the invitation:\n${link.href}`,
    `The link works once, until ${expiresAt.toISOString()}.`,
  ].join("\n\n");
  await tx.outgoingMails.create({
    ...{ id, organizationId, invitationId, recipient: email },
    subject: `Invitation to ${name}`,
    sealedText: mailTexts.seal(text, [organizationId, id]),
  });
}
