import type { PrismaClient } from "./generated/client.ts";

/** Row-level security does not bind the role with which this process connects. */
export class RoleUnconfined extends Error {
  override readonly name = "RoleUnconfined";
}

interface Standing {
  readonly role: string;
  /** Roles without limits that it is or may become. */
  readonly unlimited: string[];
  /** Tables and schemas that it may change as their owner. */
  readonly owned: string[];
}

/**
 * Superusers, roles with BYPASSRLS and owners of tables are not bound by row-level security, or can
 * switch it off. A role that may become one of them is no better.
 */
export async function assertConfined(client: PrismaClient): Promise<void> {
  const [standing] = await client.$queryRaw<Standing[]>`
    SELECT current_user::text AS role,
      ARRAY(SELECT rolname::text FROM pg_roles
        WHERE (rolsuper OR rolbypassrls) AND pg_has_role(current_user, oid, 'MEMBER')
        ORDER BY 1) AS unlimited,
      ARRAY(SELECT DISTINCT nspname::text FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid
        WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema'
          AND (pg_has_role(current_user, n.nspowner, 'MEMBER')
            OR pg_has_role(current_user, c.relowner, 'MEMBER'))
        ORDER BY 1) AS owned`;
  const reason = standing === undefined ? undefined : reasonOf(standing);
  if (standing === undefined || reason === undefined) return;
  throw new RoleUnconfined(
    `The database role ${standing.role} ${reason}, so that row-level security does not confine it. Set DATABASE_URL to the address of millrace_api for the API, of millrace_worker for the worker and of millrace_gateway for a gateway. The owner's address is for migrations alone: they create these roles.`,
  );
}

function reasonOf({ role, unlimited, owned }: Standing): string | undefined {
  if (unlimited.includes(role)) return "is a superuser or has BYPASSRLS";
  if (unlimited.length > 0) return `is a member of ${unlimited.join(", ")}`;
  if (owned.length > 0) return `owns schema ${owned.join(", ")} or tables in it`;
  return undefined;
}
