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
import { brokenUniqueRule, type Client } from "./client.ts";
import { grantIn } from "./custom-role-repository.ts";
import type { Organization as OrganizationRow, User as UserRow } from "./generated/client.ts";
import { newerThan, type Page, type PageRequest, pageOf } from "./page.ts";

export interface MembershipWithOrganization extends Membership {
  readonly organization: Organization;
  /** Whether a password gives this member no access here: the organization wants single sign-on. */
  readonly requiresSso: boolean;
  /** Exact to an hour. */
  readonly lastUsedAt: Date | undefined;
}

type OrganizationFields = Pick<OrganizationRow, "id" | "name" | "slug" | "createdAt">;
type MembershipRow = OrganizationFields & {
  readonly role: string;
  readonly ssoRequired: boolean;
  readonly customRoleId: string | null;
  readonly customRoleName: string;
  readonly customRolePermissions: string[];
  readonly lastUsedAt: Date | null;
};

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

  /** Whatever the tenant of the transaction. */
  async findBySlug(slug: string): Promise<Organization | undefined> {
    const [row] = await this.#client.$queryRaw<OrganizationFields[]>`
      SELECT id, name, slug, created_at AS "createdAt" FROM find_organization(${slug})`;
    return row && toOrganization(row);
  }

  async create(data: { id: OrganizationId; name: string; slug: string }): Promise<Organization> {
    return toOrganization(await this.#client.organization.create({ data }));
  }

  /** Memberships of one user in every tenant, oldest first. */
  async membershipsOf(userId: UserId): Promise<MembershipWithOrganization[]> {
    const rows = await this.#client.$queryRaw<MembershipRow[]>`
      SELECT organization_id AS id, role, name, slug, created_at AS "createdAt", sso_required AS "ssoRequired",
        custom_role_id AS "customRoleId", custom_role_name AS "customRoleName",
        custom_role_permissions AS "customRolePermissions", last_used_at AS "lastUsedAt"
      FROM memberships_of(${userId})`;
    return rows.flatMap((row) => {
      if (!isRole(row.role)) return [];
      const organization = toOrganization(row);
      const { customRoleId: id, customRoleName: name, customRolePermissions: permissions } = row;
      const grant = grantIn(row.role, id === null ? undefined : { id, name, permissions });
      // Owners keep their passwords: a provider that fails must not lock everybody out.
      const requiresSso = row.ssoRequired && grant.role !== "owner";
      const lastUsedAt = row.lastUsedAt ?? undefined;
      const { id: organizationId } = organization;
      return [{ organizationId, userId, ...grant, organization, requiresSso, lastUsedAt }];
    });
  }

  /** Makes the user a member, or gives a member another role. */
  async putMember(organizationId: OrganizationId, userId: UserId, role: Role): Promise<void> {
    await this.#client.member.upsert({
      where: { organizationId_userId: { organizationId, userId } },
      create: { id: newId("mem"), organizationId, userId, role },
      update: { role, customRoleId: null },
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
      where: { organizationId, deletedAt: null, ...newerThan(page.after) },
      orderBy: [{ createdAt: "asc" }, { id: "asc" }],
      take: page.limit + 1,
    });
    return pageOf(rows, page.limit, toEnvironment);
  }

  async getEnvironment(
    organizationId: OrganizationId,
    id: EnvironmentId,
  ): Promise<Environment | undefined> {
    const where = { id, organizationId, deletedAt: null };
    const row = await this.#client.environment.findFirst({ where });
    return row ? toEnvironment(row) : undefined;
  }

  /** Like `getEnvironment`; nobody deletes it until the transaction ends. */
  async holdEnvironment(
    organizationId: OrganizationId,
    id: EnvironmentId,
  ): Promise<Environment | undefined> {
    await this.#client.$queryRaw`
      SELECT 1 FROM environment WHERE id = ${id} AND organization_id = ${organizationId} FOR SHARE`;
    return this.getEnvironment(organizationId, id);
  }

  /** The tenant's environment of that name. */
  async findEnvironment(
    organizationId: OrganizationId,
    name: string,
  ): Promise<Environment | undefined> {
    const where = { organizationId, name, deletedAt: null };
    const row = await this.#client.environment.findFirst({ where });
    return row ? toEnvironment(row) : undefined;
  }

  /** Undefined where the name is taken. */
  async createEnvironment(
    organizationId: OrganizationId,
    name: string,
  ): Promise<Environment | undefined> {
    const id = newId("env");
    // The rule is broken without an error, which would end the transaction that this is part of.
    await this.#client.$executeRaw`
      INSERT INTO environment (id, organization_id, name) VALUES (${id}, ${organizationId}, ${name})
      ON CONFLICT (organization_id, name) WHERE deleted_at IS NULL DO NOTHING`;
    return this.getEnvironment(organizationId, id);
  }

  /** The tenant's environment of that name, made if there is none. */
  async ensureEnvironment(organizationId: OrganizationId, name: string): Promise<Environment> {
    const environment =
      (await this.createEnvironment(organizationId, name)) ??
      (await this.findEnvironment(organizationId, name));
    if (!environment) throw new Error(`environment ${name} was deleted while it was made`);
    return environment;
  }

  /** Undefined where the name is taken. The caller has checked the tenant. */
  async renameEnvironment(id: EnvironmentId, name: string): Promise<Environment | undefined> {
    try {
      const row = await this.#client.environment.update({ where: { id }, data: { name } });
      return toEnvironment(row);
    } catch (error) {
      if (brokenUniqueRule(error) === undefined) throw error;
      return undefined;
    }
  }

  /**
   * False where it has clusters, those included whose data is kept. One statement would not see a
   * cluster that is being made: `holdEnvironment` makes the two wait for each other.
   */
  async deleteEnvironment(id: EnvironmentId): Promise<boolean> {
    await this.#client.$queryRaw`SELECT 1 FROM environment WHERE id = ${id} FOR UPDATE`;
    const clusters = await this.#client.cluster.count({
      where: { environmentId: id, deletedAt: null },
    });
    if (clusters > 0) return false;
    const deletedAt = new Date();
    await this.#client.environment.update({ where: { id }, data: { deletedAt } });
    return true;
  }

  async countEnvironments(organizationId: OrganizationId): Promise<number> {
    return this.#client.environment.count({ where: { organizationId, deletedAt: null } });
  }

  /**
   * Keeps others from counting and adding at the same time, until the transaction ends. Not FOR UPDATE: rows
   * that refer to the organization could not be added meanwhile, and who adds one may hold what we wait for.
   */
  async lock(organizationId: OrganizationId): Promise<void> {
    await this.#client.$queryRaw`
      SELECT 1 FROM organization WHERE id = ${organizationId} FOR NO KEY UPDATE`;
  }

  /** Keeps others from creating the account of this address until the transaction ends. */
  async lockAddress(email: string): Promise<void> {
    const key = `address ${email.toLowerCase()}`;
    await this.#client.$queryRaw`
      SELECT pg_advisory_xact_lock(hashtextextended(${key}, 0))::text`;
  }
}

function toOrganization(row: OrganizationFields): Organization {
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
