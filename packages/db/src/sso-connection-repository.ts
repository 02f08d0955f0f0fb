import {
  newId,
  type OrganizationId,
  type SsoConnection,
  type SsoConnectionId,
  storedRole,
  type UserId,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import type { SsoConnection as SsoConnectionRow } from "./generated/client.ts";

export interface StoredSsoConnection {
  readonly connection: SsoConnection;
  /** Sealed. */
  readonly clientSecret: Uint8Array<ArrayBuffer>;
}

export type NewSsoConnection = Omit<SsoConnection, "createdAt" | "updatedAt"> & {
  /** Sealed. */
  readonly clientSecret: Uint8Array<ArrayBuffer>;
};

/** The identity provider of a tenant, its mail domains, and the accounts that it vouches for. */
export class SsoConnectionRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Of any tenant: by its slug, or by a mail domain. */
  async findOrganization(slug: string, domain: string): Promise<OrganizationId | undefined> {
    const [row] = await this.#client.$queryRaw<{ id: string }[]>`
      SELECT organization_id AS id FROM find_sso(${slug}, ${domain})`;
    return row?.id as OrganizationId | undefined;
  }

  /** Of any tenant that has a connection, in the order of their ids. */
  async organizationsAfter(after: string, limit: number): Promise<OrganizationId[]> {
    const rows = await this.#client.$queryRaw<{ id: string }[]>`
      SELECT organization_id AS id FROM sso_organizations(${after}, ${limit}::int)`;
    return rows.map(({ id }) => id as OrganizationId);
  }

  /** False where the secret has changed meanwhile. */
  async replaceClientSecret(
    id: SsoConnectionId,
    from: Uint8Array<ArrayBuffer>,
    to: Uint8Array<ArrayBuffer>,
  ): Promise<boolean> {
    // Not as Prisma writes it: nobody has changed the connection, so its time stays.
    const count = await this.#client.$executeRaw`
      UPDATE sso_connection SET client_secret = ${to} WHERE id = ${id} AND client_secret = ${from}`;
    return count === 1;
  }

  async find(organizationId: OrganizationId): Promise<StoredSsoConnection | undefined> {
    const [row, domains] = await this.#rows(organizationId);
    if (!row) return undefined;
    return { connection: toConnection(row, domains), clientSecret: row.clientSecret };
  }

  /**
   * Stores the tenant's connection in place of an earlier one. Answers with the first of its domains that another
   * tenant has, in which case the caller's transaction must not commit.
   */
  async put({
    domains,
    clientSecret,
    ...fields
  }: NewSsoConnection): Promise<SsoConnection | { readonly taken: string }> {
    const { organizationId } = fields;
    const data = { ...fields, clientSecret };
    const row = await this.#client.ssoConnection.upsert({
      where: { organizationId },
      create: data,
      update: data,
    });
    await this.#client.ssoDomain.deleteMany({ where: { organizationId } });
    for (const domain of domains) {
      // Another tenant's row cannot be seen, but it is in the way.
      const added = await this.#client.$executeRaw`
        INSERT INTO sso_domain (domain, organization_id) VALUES (${domain}, ${organizationId})
        ON CONFLICT DO NOTHING`;
      if (added === 0) return { taken: domain };
    }
    return toConnection(row, domains);
  }

  /** With every session that it opened, and what links accounts to it. False where there is none. */
  async remove(organizationId: OrganizationId): Promise<boolean> {
    const [row] = await this.#rows(organizationId);
    if (!row) return false;
    await this.forget(organizationId, row.id as SsoConnectionId);
    await this.#client.ssoDomain.deleteMany({ where: { organizationId } });
    await this.#client.ssoConnection.deleteMany({ where: { organizationId } });
    return true;
  }

  /** Ends every session that the connection opened, and removes what links accounts to it. */
  async forget(organizationId: OrganizationId, id: SsoConnectionId): Promise<void> {
    await this.endSessions(organizationId);
    await this.#client.account.deleteMany({ where: { providerId: id } });
  }

  async endSessions(organizationId: OrganizationId): Promise<void> {
    await this.#client.session.deleteMany({ where: { ssoOrganizationId: organizationId } });
  }

  /** Whom the provider means by that subject. */
  async userOf(id: SsoConnectionId, subject: string): Promise<UserId | undefined> {
    const where = { providerId_accountId: { providerId: id, accountId: subject } };
    return (await this.#client.account.findUnique({ where }))?.userId as UserId | undefined;
  }

  async hasLink(id: SsoConnectionId, userId: UserId): Promise<boolean> {
    return (await this.#client.account.count({ where: { providerId: id, userId } })) > 0;
  }

  async link(id: SsoConnectionId, subject: string, userId: UserId): Promise<void> {
    const data = { id: newId("acc"), providerId: id, accountId: subject, userId };
    await this.#client.account.create({ data });
  }

  async #rows(
    organizationId: OrganizationId,
  ): Promise<[row: SsoConnectionRow | null, domains: string[]]> {
    const row = await this.#client.ssoConnection.findUnique({ where: { organizationId } });
    const domains = await this.#client.ssoDomain.findMany({
      where: { organizationId },
      orderBy: { domain: "asc" },
    });
    return [row, domains.map(({ domain }) => domain)];
  }
}

function toConnection(row: SsoConnectionRow, domains: readonly string[]): SsoConnection {
  return {
    id: row.id as SsoConnectionId,
    organizationId: row.organizationId as OrganizationId,
    issuer: row.issuer,
    clientId: row.clientId,
    domains: [...domains].sort(),
    defaultRole: storedRole(row.defaultRole),
    required: row.required,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  };
}
