import {
  newId,
  type OrganizationId,
  type ServiceAccount,
  type ServiceAccountId,
  storedRole,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import type { ServiceAccount as ServiceAccountRow } from "./generated/client.ts";
import { olderThan, type Page, type PageRequest, pageOf } from "./page.ts";

export type NewServiceAccount = Pick<
  ServiceAccount,
  "organizationId" | "name" | "description" | "role"
>;

/** What of a service account can change. */
export type ServiceAccountChange = Partial<Pick<ServiceAccount, "description" | "role">> & {
  readonly disabledAt?: Date | null;
};

/** A tenant's service accounts; rows of deleted ones stay. */
export class ServiceAccountRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Undefined where the name is taken. */
  async create(account: NewServiceAccount): Promise<ServiceAccount | undefined> {
    const { organizationId, name, description, role } = account;
    const id = newId("svc");
    // The rule is broken without an error, which would end the transaction that this is part of.
    await this.#client.$executeRaw`
      INSERT INTO service_account (id, organization_id, name, description, role)
      VALUES (${id}, ${organizationId}, ${name}, ${description}, ${role})
      ON CONFLICT (organization_id, name) WHERE deleted_at IS NULL DO NOTHING`;
    return this.get(organizationId, id);
  }

  async get(
    organizationId: OrganizationId,
    id: ServiceAccountId,
  ): Promise<ServiceAccount | undefined> {
    const where = { id, organizationId, deletedAt: null };
    const row = await this.#client.serviceAccount.findFirst({ where });
    return row ? toServiceAccount(row) : undefined;
  }

  async findByName(
    organizationId: OrganizationId,
    name: string,
  ): Promise<ServiceAccount | undefined> {
    const where = { name, organizationId, deletedAt: null };
    const row = await this.#client.serviceAccount.findFirst({ where });
    return row ? toServiceAccount(row) : undefined;
  }

  /** Newest first. */
  async list(organizationId: OrganizationId, page: PageRequest): Promise<Page<ServiceAccount>> {
    const rows = await this.#client.serviceAccount.findMany({
      where: { organizationId, deletedAt: null, ...olderThan(page.after) },
      orderBy: [{ createdAt: "desc" }, { id: "desc" }],
      take: page.limit + 1,
    });
    return pageOf(rows, page.limit, toServiceAccount);
  }

  async count(organizationId: OrganizationId): Promise<number> {
    return this.#client.serviceAccount.count({ where: { organizationId, deletedAt: null } });
  }

  async update(
    organizationId: OrganizationId,
    id: ServiceAccountId,
    change: ServiceAccountChange,
  ): Promise<void> {
    const where = { id, organizationId, deletedAt: null };
    await this.#client.serviceAccount.updateMany({ where, data: change });
  }

  async revokeKeys(organizationId: OrganizationId, id: ServiceAccountId, now: Date): Promise<void> {
    await this.#client.apiKey.updateMany({
      where: { organizationId, serviceAccountId: id, revokedAt: null },
      data: { revokedAt: now },
    });
  }

  /** Ends it and its keys. */
  async remove(organizationId: OrganizationId, id: ServiceAccountId, now: Date): Promise<void> {
    await this.revokeKeys(organizationId, id, now);
    await this.#client.serviceAccount.updateMany({
      where: { id, organizationId, deletedAt: null },
      data: { deletedAt: now },
    });
  }
}

function toServiceAccount(row: ServiceAccountRow): ServiceAccount {
  return {
    id: row.id as ServiceAccountId,
    organizationId: row.organizationId as OrganizationId,
    name: row.name,
    description: row.description,
    role: storedRole(row.role),
    createdAt: row.createdAt,
    disabledAt: row.disabledAt ?? undefined,
  };
}
