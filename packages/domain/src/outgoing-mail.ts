import type { OrganizationId, OutgoingMailId } from "./id.ts";

/** Mails of one organization that are kept; the oldest make way. More than can be pending invitations. */
export const OUTGOING_MAILS_PER_ORGANIZATION_MAX = 1_000;

/** A mail of the product. No mail server is configured, so that people pass its text on themselves. */
export interface OutgoingMail {
  readonly id: OutgoingMailId;
  readonly organizationId: OrganizationId;
  /** In lower case. */
  readonly recipient: string;
  readonly subject: string;
  readonly createdAt: Date;
  /** When somebody read the text, which is possible once. */
  readonly openedAt: Date | undefined;
}
