import {
  CUSTOM_ROLE_PERMISSIONS,
  type CustomRole,
  type CustomRoleId,
  type HeldCustomRole,
  leastRoleWith,
  newId,
  type OrganizationId,
  type Permission,
  type Role,
  storedRole,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import type { CustomRole as CustomRoleRow } from "./generated/client.ts";

export type NewCustomRole = Omit<CustomRole, "id" | "createdAt">;

/** A tenant's own roles. */
export class CustomRoleRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Undefined where the name, in any case, is taken: without an error, which would end the transaction. */
  async create({ permissions, ...rest }: NewCustomRole): Promise<CustomRole | undefined> {
    const data = { id: newId("rol"), ...rest, permissions: [...permissions] };
    const { customRole } = this.#client;
    const [row] = await customRole.createManyAndReturn({ data: [data], skipDuplicates: true });
    return row && toCustomRole(row);
  }

  async get(organizationId: OrganizationId, id: CustomRoleId): Promise<CustomRole | undefined> {
    const row = await this.#client.customRole.findFirst({ where: { id, organizationId } });
    return row ? toCustomRole(row) : undefined;
  }

  /** By name. */
  async list(organizationId: OrganizationId): Promise<CustomRole[]> {
    const rows = await this.#client.customRole.findMany({
      where: { organizationId },
      orderBy: { name: "asc" },
    });
    return rows.map(toCustomRole);
  }

  async update(
    organizationId: OrganizationId,
    id: CustomRoleId,
    { permissions, description }: Partial<Pick<CustomRole, "permissions" | "description">>,
  ): Promise<void> {
    await this.#client.customRole.updateMany({
      where: { id, organizationId },
      data: {
        ...(permissions && { permissions: [...permissions] }),
        ...(description !== undefined && { description }),
      },
    });
  }

  async countMembers(organizationId: OrganizationId, id: CustomRoleId): Promise<number> {
    return this.#client.member.count({ where: { organizationId, customRoleId: id } });
  }

  async remove(organizationId: OrganizationId, id: CustomRoleId): Promise<void> {
    await this.#client.customRole.deleteMany({ where: { id, organizationId } });
  }
}

function isGrantable(value: string): value is Permission {
  return (CUSTOM_ROLE_PERMISSIONS as readonly string[]).includes(value);
}

type HeldRow = Pick<CustomRoleRow, "id" | "name" | "permissions">;

/** The columns of a `HeldRow`. */
export const HELD_CUSTOM_ROLE = { select: { id: true, name: true, permissions: true } } as const;

/** What a member's row grants. Permissions that this version does not know grant nothing. */
export function grantIn(
  role: string,
  row: HeldRow | null | undefined,
): { role: Role; customRole: HeldCustomRole | undefined } {
  if (!row) return { role: storedRole(role), customRole: undefined };
  const permissions = row.permissions.filter(isGrantable);
  const customRole = { id: row.id as CustomRoleId, name: row.name, permissions };
  return { role: leastRoleWith(permissions), customRole };
}

function toCustomRole(row: CustomRoleRow): CustomRole {
  return {
    id: row.id as CustomRoleId,
    organizationId: row.organizationId as OrganizationId,
    name: row.name,
    description: row.description,
    permissions: row.permissions.filter(isGrantable),
    createdAt: row.createdAt,
  };
}
