import type { SingleSignOn } from "@millrace/contract";
import type { Core } from "@millrace/core";
import type { SsoConnection } from "@millrace/domain";

export function presentSingleSignOn(
  { identityProviders }: Pick<Core, "identityProviders">,
  connection: SsoConnection | undefined,
): SingleSignOn {
  if (!connection) return { connection: null };
  return {
    connection: {
      id: connection.id,
      redirect_uri: identityProviders.redirectUriOf(connection.id),
      issuer: connection.issuer,
      client_id: connection.clientId,
      domains: [...connection.domains],
      default_role: connection.defaultRole,
      required: connection.required,
      created_at: connection.createdAt.toISOString(),
      updated_at: connection.updatedAt.toISOString(),
    },
  };
}
