import {
  type Changer,
  type Invitation,
  type InvitationId,
  newId,
  type OrganizationId,
  type Role,
  storedRole,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import type { Invitation as InvitationRow } from "./generated/client.ts";
import { olderThan, type Page, type PageRequest, pageOf } from "./page.ts";

export interface NewInvitation {
  readonly organizationId: OrganizationId;
  /** In lower case. */
  readonly email: string;
  readonly role: Role;
  /** SHA-256 of the token, 32 bytes. */
  readonly tokenHash: Uint8Array<ArrayBuffer>;
  readonly invitedBy: Changer;
  readonly expiresAt: Date;
}

/** Where an invitation is, for somebody who only has its link. */
export interface FoundInvitation {
  readonly id: InvitationId;
  readonly organizationId: OrganizationId;
  readonly organizationName: string;
}

/** A tenant's invitations; those that are over stay. */
export class InvitationRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  async create({ invitedBy, ...rest }: NewInvitation): Promise<Invitation> {
    const data = { id: newId("inv"), ...rest, invitedBy: { ...invitedBy } };
    return toInvitation(await this.#client.invitation.create({ data }));
  }

  /** Of any tenant, and in whatever state. */
  async findByToken(tokenHash: Uint8Array<ArrayBuffer>): Promise<FoundInvitation | undefined> {
    const [row] = await this.#client.$queryRaw<FoundInvitation[]>`
      SELECT id, organization_id AS "organizationId", organization_name AS "organizationName"
      FROM find_invitation(${tokenHash})`;
    return row;
  }

  async get(organizationId: OrganizationId, id: InvitationId): Promise<Invitation | undefined> {
    const row = await this.#client.invitation.findFirst({ where: { id, organizationId } });
    return row ? toInvitation(row) : undefined;
  }

  /** Like `get`; nobody else accepts or revokes it until the transaction ends. */
  async hold(organizationId: OrganizationId, id: InvitationId): Promise<Invitation | undefined> {
    await this.#client.$queryRaw`
      SELECT 1 FROM invitation WHERE id = ${id} AND organization_id = ${organizationId} FOR UPDATE`;
    return this.get(organizationId, id);
  }

  /** Those that can be accepted at `now`, newest first. */
  async pending(
    organizationId: OrganizationId,
    now: Date,
    page: PageRequest,
  ): Promise<Page<Invitation>> {
    const rows = await this.#client.invitation.findMany({
      where: { ...pendingAt(organizationId, now), ...olderThan(page.after) },
      orderBy: [{ createdAt: "desc" }, { id: "desc" }],
      take: page.limit + 1,
    });
    return pageOf(rows, page.limit, toInvitation);
  }

  async countPending(organizationId: OrganizationId, now: Date): Promise<number> {
    return this.#client.invitation.count({ where: pendingAt(organizationId, now) });
  }

  async pendingFor(
    organizationId: OrganizationId,
    email: string,
    now: Date,
  ): Promise<Invitation[]> {
    const where = { ...pendingAt(organizationId, now), email };
    return (await this.#client.invitation.findMany({ where })).map(toInvitation);
  }

  /** False where it was accepted or revoked before. */
  async revoke(organizationId: OrganizationId, id: InvitationId, now: Date): Promise<boolean> {
    return this.#end(organizationId, id, { revokedAt: now });
  }

  /** False where it was accepted or revoked before. */
  async accept(organizationId: OrganizationId, id: InvitationId, now: Date): Promise<boolean> {
    return this.#end(organizationId, id, { acceptedAt: now });
  }

  async #end(
    organizationId: OrganizationId,
    id: InvitationId,
    data: { revokedAt: Date } | { acceptedAt: Date },
  ): Promise<boolean> {
    const where = { id, organizationId, acceptedAt: null, revokedAt: null };
    return (await this.#client.invitation.updateMany({ where, data })).count === 1;
  }
}

/** Invitations that can be accepted at `now`. */
export function pendingAt(organizationId: OrganizationId, now: Date) {
  return { organizationId, acceptedAt: null, revokedAt: null, expiresAt: { gt: now } };
}

function toInvitation(row: InvitationRow): Invitation {
  return {
    id: row.id as InvitationId,
    organizationId: row.organizationId as OrganizationId,
    email: row.email,
    role: storedRole(row.role),
    invitedBy: row.invitedBy as unknown as Changer,
    createdAt: row.createdAt,
    expiresAt: row.expiresAt,
    acceptedAt: row.acceptedAt ?? undefined,
    revokedAt: row.revokedAt ?? undefined,
  };
}
