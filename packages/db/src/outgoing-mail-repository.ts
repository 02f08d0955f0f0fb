import {
  type InvitationId,
  type OrganizationId,
  OUTGOING_MAILS_PER_ORGANIZATION_MAX,
  type OutgoingMail,
  type OutgoingMailId,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import type { OutgoingMail as MailRow } from "./generated/client.ts";
import { olderThan, type Page, type PageRequest, pageOf } from "./page.ts";

export interface NewOutgoingMail extends Pick<OutgoingMail, "id" | "organizationId" | "subject"> {
  readonly invitationId: InvitationId;
  readonly recipient: string;
  /** Bound to organization and id. */
  readonly sealedText: Uint8Array<ArrayBuffer>;
}

/** A mail and what its text depends on. */
export interface StoredMail {
  readonly mail: OutgoingMail;
  /** Whose link is in the text. */
  readonly invitationId: InvitationId;
}

/** A tenant's mails, sealed. */
export class OutgoingMailRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Removes the oldest beyond the bound. */
  async create(data: NewOutgoingMail): Promise<void> {
    await this.#client.outgoingMail.create({ data });
    await this.#client.$executeRaw`
      DELETE FROM outgoing_mail WHERE id IN (
        SELECT id FROM outgoing_mail WHERE organization_id = ${data.organizationId}
        ORDER BY created_at DESC, id DESC OFFSET ${OUTGOING_MAILS_PER_ORGANIZATION_MAX})`;
  }

  /** Newest first. */
  async list(organizationId: OrganizationId, page: PageRequest): Promise<Page<StoredMail>> {
    const rows = await this.#client.outgoingMail.findMany({
      where: { organizationId, ...olderThan(page.after) },
      orderBy: [{ createdAt: "desc" }, { id: "desc" }],
      take: page.limit + 1,
    });
    return pageOf(rows, page.limit, toStored);
  }

  async get(organizationId: OrganizationId, id: OutgoingMailId): Promise<StoredMail | undefined> {
    const row = await this.#client.outgoingMail.findFirst({ where: { id, organizationId } });
    return row ? toStored(row) : undefined;
  }

  /** The sealed text, which is removed with this; undefined where it was taken before. */
  async takeText(
    organizationId: OrganizationId,
    id: OutgoingMailId,
    now: Date,
  ): Promise<Uint8Array | undefined> {
    const [row] = await this.#client.$queryRaw<{ text: Uint8Array }[]>`
      UPDATE outgoing_mail AS mail SET sealed_text = NULL, opened_at = ${now}
      FROM (SELECT id, sealed_text FROM outgoing_mail
        WHERE id = ${id} AND organization_id = ${organizationId} AND sealed_text IS NOT NULL
        FOR UPDATE) AS unread
      WHERE mail.id = unread.id RETURNING unread.sealed_text AS text`;
    return row?.text;
  }
}

function toStored(row: MailRow): StoredMail {
  const mail = {
    id: row.id as OutgoingMailId,
    organizationId: row.organizationId as OrganizationId,
    recipient: row.recipient,
    subject: row.subject,
    createdAt: row.createdAt,
    openedAt: row.openedAt ?? undefined,
  };
  return { mail, invitationId: row.invitationId as InvitationId };
}
