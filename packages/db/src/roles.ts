import pg from "pg";

/** Roles that processes connect with; the migrations create them, without the right to connect. */
export const ROLES = ["millrace_api", "millrace_worker", "millrace_gateway"] as const;
export type RoleName = (typeof ROLES)[number];

/** PostgreSQL's `internal_error`: two sessions changed the role at the same time. */
const CONCURRENT_CHANGE = "XX000";
const TRIES_MAX = 10;

/**
 * Lets the role of `roleUrl` connect with the password in it. A role that can already is left as it is, so
 * that who migrates needs no right over roles that somebody else prepared.
 *
 * @throws Error where the address names another role, has no password, or the owner may not change the role.
 */
export async function enableRole(ownerUrl: string, roleUrl: string, role: RoleName): Promise<void> {
  const url = new URL(roleUrl);
  const password = decodeURIComponent(url.password);
  if (url.username !== role || password === "") {
    throw new Error(
      `the address for ${role} names the role ${url.username || "(none)"}${password === "" ? " without a password" : ""}: set it to postgres://${role}:PASSWORD@…`,
    );
  }
  if (await connects(roleUrl)) return;
  const owner = new pg.Client({ connectionString: ownerUrl });
  await owner.connect();
  try {
    // Statements about roles take no parameters; the literal is quoted by the driver.
    const statement = `ALTER ROLE ${role} LOGIN PASSWORD ${owner.escapeLiteral(password)}`;
    for (let tries = 1; ; tries += 1) {
      try {
        await owner.query(statement);
        return;
      } catch (error) {
        const { code } = error as { code?: string };
        if (code !== CONCURRENT_CHANGE || tries === TRIES_MAX) throw error;
      }
    }
  } finally {
    await owner.end();
  }
}

async function connects(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url });
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}
