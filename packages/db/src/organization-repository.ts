import {
  type Environment,
  type EnvironmentId,
  isRole,
  type Membership,
  newId,
  type Organization,
  type OrganizationId,
  type Role,
  type User,
  type UserId,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import type { Organization as OrganizationRow, User as UserRow } from "./generated/client.ts";
import { newerThan, type Page, type PageRequest, pageOf } from "./page.ts";

export interface MembershipWithOrganization extends Membership {
  readonly organization: Organization;
}

/** Tenants, their members and their environments. */
export class OrganizationRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  async get(id: OrganizationId): Promise<Organization | undefined> {
    const row = await this.#client.organization.findUnique({ where: { id } });
    return row ? toOrganization(row) : undefined;
  }

  async findBySlug(slug: string): Promise<Organization | undefined> {
    const row = await this.#client.organization.findUnique({ where: { slug } });
    return row ? toOrganization(row) : undefined;
  }

  async create(organization: { name: string; slug: string }): Promise<Organization> {
    const data = { id: newId("org"), ...organization };
    return toOrganization(await this.#client.organization.create({ data }));
  }

  /** Memberships of one user, oldest first. */
  async membershipsOf(userId: UserId): Promise<MembershipWithOrganization[]> {
    const rows = await this.#client.member.findMany({
      where: { userId },
      include: { organization: true },
      orderBy: [{ createdAt: "asc" }, { id: "asc" }],
    });
    return rows.flatMap((row) =>
      isRole(row.role)
        ? [
            {
              organizationId: row.organizationId as OrganizationId,
              userId: row.userId as UserId,
              role: row.role,
              organization: toOrganization(row.organization),
            },
          ]
        : [],
    );
  }

  /** Makes the user a member, or gives a member another role. */
  async putMember(organizationId: OrganizationId, userId: UserId, role: Role): Promise<void> {
    await this.#client.member.upsert({
      where: { organizationId_userId: { organizationId, userId } },
      create: { id: newId("mem"), organizationId, userId, role },
      update: { role },
    });
  }

  async findUserByEmail(email: string): Promise<User | undefined> {
    const row = await this.#client.user.findUnique({ where: { email: email.toLowerCase() } });
    return row ? toUser(row) : undefined;
  }

  async getUser(id: UserId): Promise<User | undefined> {
    const row = await this.#client.user.findUnique({ where: { id } });
    return row ? toUser(row) : undefined;
  }

  /** Environments of one tenant, oldest first. */
  async environments(
    organizationId: OrganizationId,
    page: PageRequest,
  ): Promise<Page<Environment>> {
    const rows = await this.#client.environment.findMany({
      where: { organizationId, ...newerThan(page.after) },
      orderBy: [{ createdAt: "asc" }, { id: "asc" }],
      take: page.limit + 1,
    });
    return pageOf(rows, page.limit, toEnvironment);
  }

  async getEnvironment(
    organizationId: OrganizationId,
    id: EnvironmentId,
  ): Promise<Environment | undefined> {
    const row = await this.#client.environment.findFirst({ where: { id, organizationId } });
    return row ? toEnvironment(row) : undefined;
  }

  /** The tenant's environment of that name, made if there is none. */
  async ensureEnvironment(organizationId: OrganizationId, name: string): Promise<Environment> {
    const row = await this.#client.environment.upsert({
      where: { organizationId_name: { organizationId, name } },
      create: { id: newId("env"), organizationId, name },
      update: {},
    });
    return toEnvironment(row);
  }
}

function toOrganization(row: OrganizationRow): Organization {
  return {
    id: row.id as OrganizationId,
    name: row.name,
    slug: row.slug,
    createdAt: row.createdAt,
  };
}

function toUser(row: UserRow): User {
  return { id: row.id as UserId, email: row.email, name: row.name, createdAt: row.createdAt };
}

function toEnvironment(row: {
  id: string;
  organizationId: string;
  name: string;
  createdAt: Date;
}): Environment {
  return {
    id: row.id as EnvironmentId,
    organizationId: row.organizationId as OrganizationId,
    name: row.name,
    createdAt: row.createdAt,
  };
}
