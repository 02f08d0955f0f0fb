import type { Principal, SsoConnection } from "@millrace/domain";
import type { Core } from "../core.ts";

export interface SingleSignOnView {
  /** What the identity provider has to allow. */
  readonly redirectUri: string;
  /** Undefined where single sign-on is not set up. */
  readonly connection: SsoConnection | undefined;
}

export async function getSingleSignOn(
  { db, identityProviders }: Core,
  { organizationId }: Principal,
): Promise<SingleSignOnView> {
  const stored = await db.ssoConnections.find(organizationId);
  return { redirectUri: identityProviders.redirectUri, connection: stored?.connection };
}
