import type { StoredSsoConnection } from "@millrace/db";
import {
  DomainError,
  newId,
  type OrganizationId,
  type Principal,
  type Role,
  type SsoConnection,
  type SsoConnectionId,
  validationFailed,
} from "@millrace/domain";
import type { Core } from "../core.ts";

export interface SetSingleSignOnInput {
  readonly issuer: string;
  readonly clientId: string;
  /** Undefined: as it is stored. */
  readonly clientSecret: string | undefined;
  readonly domains: readonly string[];
  readonly defaultRole: Role;
  readonly required: boolean;
}

/**
 * Connects the organization to an identity provider, or changes the connection. Another issuer is another
 * connection: what its subjects mean is not what the earlier one's meant, so that its sessions and links end. Throws
 * `sso_provider_refused` where the provider cannot be used, `sso_domain_taken`, `validation_failed` without a
 * secret.
 */
export async function setSingleSignOn(
  core: Core,
  { organizationId }: Principal,
  input: SetSingleSignOnInput,
): Promise<SsoConnection> {
  // Before the transaction: a provider may take seconds to answer.
  const issuer = await core.identityProviders.check(input.issuer);
  return core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const stored = await tx.ssoConnections.find(organizationId);
    const isSame = stored?.connection.issuer === issuer;
    if (stored && !isSame) await tx.ssoConnections.forget(organizationId, stored.connection.id);
    const id = stored && isSame ? stored.connection.id : newId("sso");
    const { clientId, defaultRole, required } = input;
    const put = await tx.ssoConnections.put({
      ...{ id, organizationId, issuer, clientId, defaultRole, required },
      domains: [...new Set(input.domains)].sort(),
      clientSecret:
        input.clientSecret === undefined
          ? keptSecret(isSame ? stored : undefined)
          : sealed(core, organizationId, id, input.clientSecret),
    });
    if ("taken" in put) throw domainTaken(put.taken);
    return put;
  });
}

function sealed(
  { ssoSecrets }: Core,
  organizationId: OrganizationId,
  id: SsoConnectionId,
  secret: string,
): Uint8Array<ArrayBuffer> {
  return ssoSecrets.seal(secret, [organizationId, id]);
}

function keptSecret(stored: StoredSsoConnection | undefined): Uint8Array<ArrayBuffer> {
  if (stored) return stored.clientSecret;
  throw validationFailed([
    { pointer: "/client_secret", code: "required", message: "is required for a new issuer" },
  ]);
}

function domainTaken(domain: string): DomainError {
  return new DomainError("sso_domain_taken", `Another organization signs in with ${domain}.`, {
    remedy: "Remove the domain. If it is yours, ask whoever runs this installation.",
    fields: [{ pointer: "/domains", code: "taken", message: `must not contain ${domain}` }],
  });
}
