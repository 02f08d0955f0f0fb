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
import { assertMayConnect } from "./assert-may-connect.ts";

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
 * Connects the organization to an identity provider, or changes the connection. Another issuer or client is another
 * connection: what its subjects mean is not what the earlier one's meant (they may be pairwise, OpenID Connect Core 1.0,
 * section 8), so that its sessions and links end. Sessions end as well where a domain is removed. Throws `forbidden` for a
 * narrowed key, `sso_provider_refused` where the provider cannot be used, `sso_domain_taken`, `validation_failed` without a
 * secret.
 */
export async function setSingleSignOn(
  core: Core,
  principal: Principal,
  input: SetSingleSignOnInput,
): Promise<SsoConnection> {
  assertMayConnect(principal);
  const { organizationId } = principal;
  // Before the transaction: a provider may take seconds to answer.
  const issuer = await core.identityProviders.check(input.issuer);
  return core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const stored = await tx.ssoConnections.find(organizationId);
    const { clientId, defaultRole, required } = input;
    const earlier = stored?.connection;
    const isSame = earlier?.issuer === issuer && earlier.clientId === clientId;
    if (earlier && !isSame) await tx.ssoConnections.forget(organizationId, earlier.id);
    else if (earlier?.domains.some((domain) => !input.domains.includes(domain))) {
      await tx.ssoConnections.endSessions(organizationId);
    }
    const id = earlier && isSame ? earlier.id : newId("sso");
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
    {
      pointer: "/client_secret",
      code: "required",
      message: "is required for a new issuer or client_id",
    },
  ]);
}

function domainTaken(domain: string): DomainError {
  return new DomainError("sso_domain_taken", `Another organization signs in with ${domain}.`, {
    remedy: "Remove the domain. If it is yours, ask whoever runs this installation.",
    fields: [{ pointer: "/domains", code: "taken", message: `must not contain ${domain}` }],
  });
}
