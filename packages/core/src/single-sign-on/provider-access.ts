import type { ProviderAccess } from "@millrace/auth";
import { type OrganizationId, type SsoConnection, SsoRefused } from "@millrace/domain";
import type { CoreParts } from "../core.ts";

export interface ConnectedProvider {
  readonly connection: SsoConnection;
  readonly access: ProviderAccess;
}

/** The organization's provider with its secret. Throws `SsoRefused`. */
export async function providerOf(
  { db, ssoSecrets, identityProviders }: CoreParts,
  organizationId: OrganizationId,
): Promise<ConnectedProvider> {
  const stored = await db.tenant(organizationId).ssoConnections.find(organizationId);
  if (!stored) throw new SsoRefused("expired", "Single sign-on is not set up any more.");
  const { connection } = stored;
  const { id, issuer, clientId } = connection;
  const clientSecret = ssoSecrets.open(stored.clientSecret, [organizationId, id]);
  if (clientSecret === undefined) {
    throw new SsoRefused(
      "provider",
      "The client secret cannot be decrypted, because the installation's secret has changed. An owner has to enter it again.",
    );
  }
  const redirectUri = identityProviders.redirectUriOf(id);
  return { connection, access: { issuer, clientId, clientSecret, redirectUri } };
}
