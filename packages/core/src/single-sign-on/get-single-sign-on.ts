import type { Principal, SsoConnection } from "@millrace/domain";
import type { Core } from "../core.ts";

/** Undefined where single sign-on is not set up. */
export async function getSingleSignOn(
  { db }: Core,
  { organizationId }: Principal,
): Promise<SsoConnection | undefined> {
  return (await db.ssoConnections.find(organizationId))?.connection;
}
