import type { SingleSignOn } from "@millrace/contract";
import type { SingleSignOnView } from "@millrace/core";

export function presentSingleSignOn({ redirectUri, connection }: SingleSignOnView): SingleSignOn {
  return {
    redirect_uri: redirectUri,
    connection: connection
      ? {
          id: connection.id,
          issuer: connection.issuer,
          client_id: connection.clientId,
          domains: [...connection.domains],
          default_role: connection.defaultRole,
          required: connection.required,
          created_at: connection.createdAt.toISOString(),
          updated_at: connection.updatedAt.toISOString(),
        }
      : null,
  };
}
