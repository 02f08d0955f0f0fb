import type { Database } from "@millrace/db";
import {
  type ApiKey,
  type Clock,
  DomainError,
  isId,
  isLiveKey,
  KEY_USE_RESOLUTION_MS,
  MEMBER_USE_RESOLUTION_MS,
  notFound,
  type Organization,
  type Principal,
  type ServiceAccount,
} from "@millrace/domain";
import { isAddressIn } from "./address-range.ts";
import { apiKeyHash } from "./api-key-secret.ts";
import type { Identity } from "./identity.ts";
import type { LiveSession } from "./identity-requests.ts";
import { impersonatedPrincipal } from "./impersonated-principal.ts";

/** Names the tenant, for people who belong to several; the first one they joined by default. */
export const ORGANIZATION_HEADER = "millrace-organization";
/** What the console shows. Only a preference: an organization that the person has left is passed over. */
const ORGANIZATION_COOKIE = /(?:^|; *)millrace-organization=(org_[0-9A-Z]+)(?:;|$)/;

const BEARER = /^Bearer +(\S+)$/i;

export interface Authenticator {
  readonly db: Database;
  readonly clock: Clock;
  readonly identity: Pick<Identity, "session">;
  /** Origins whose pages may change things with a session cookie. */
  readonly trustedOrigins: readonly string[];
  /** Whether impersonations have the write access that they began with. */
  readonly impersonationMayWrite: boolean;
}

/** The part of a request that says who sends it. */
export interface Credentials {
  /** As far as trusted proxies tell it. */
  readonly clientAddress: string;
  readonly method: string;
  readonly headers: Headers;
}

/**
 * Who sends the request, for which tenant. An API key goes before a cookie. Throws
 * `unauthenticated`, which says what is wrong only to who shows the secret of an API key; `forbidden` for a foreign page or a
 * person without a tenant; `not_found` for a tenant that the person does not belong to.
 */
export async function authenticate(
  authenticator: Authenticator,
  request: Credentials,
): Promise<Principal> {
  const authorization = request.headers.get("authorization");
  if (authorization !== null) return byApiKey(authenticator, authorization, request);
  const session = await authenticator.identity.session(request.headers);
  if (session === undefined) throw unauthenticated();
  assertOwnPage(authenticator, request);
  const preferred = ORGANIZATION_COOKIE.exec(request.headers.get("cookie") ?? "")?.[1];
  const wanted = request.headers.get(ORGANIZATION_HEADER);
  return byMembership(authenticator, session, wanted, preferred);
}

async function byApiKey(
  authenticator: Authenticator,
  authorization: string,
  { clientAddress }: Credentials,
): Promise<Principal> {
  const { db, clock } = authenticator;
  const hash = apiKeyHash(BEARER.exec(authorization)?.[1] ?? "");
  const now = clock.now();
  const key = hash && (await db.signIn.findBySecret(hash));
  if (!key) throw unauthenticated();
  assertLive(key, now);
  const account = await liveServiceAccount(authenticator, key);
  if (key.allowedAddresses.length > 0 && !isAddressIn(clientAddress, key.allowedAddresses)) {
    throw new DomainError("forbidden", `This API key does not work from ${clientAddress}.`, {
      remedy: "Use it from an address that it is allowed from, or use another key.",
    });
  }
  const touched = key.lastUsedAt?.getTime() ?? 0;
  if (now.getTime() - touched > KEY_USE_RESOLUTION_MS) {
    await db.tenant(key.organizationId).apiKeys.touch(key.id, now);
  }
  return {
    organizationId: key.organizationId,
    role: account?.role ?? key.role,
    userId: undefined,
    apiKeyId: key.id,
    serviceAccountId: account?.id,
    keyLimits: key,
  };
}

/** Who shows a key's secret may know what became of the key. Throws `unauthenticated`. */
function assertLive(key: ApiKey, now: Date): void {
  if (isLiveKey(key, now)) return;
  const { revokedAt, expiresAt } = key;
  throw unauthenticated(
    revokedAt === undefined
      ? `This API key expired at ${expiresAt?.toISOString()}.`
      : `This API key was revoked at ${revokedAt.toISOString()}.`,
  );
}

/** The key's service account. Throws `unauthenticated` where that is disabled. */
async function liveServiceAccount(
  { db }: Authenticator,
  { organizationId, serviceAccountId }: ApiKey,
): Promise<ServiceAccount | undefined> {
  if (!serviceAccountId) return undefined;
  const { serviceAccounts } = db.tenant(organizationId);
  const account = await serviceAccounts.get(organizationId, serviceAccountId);
  if (!account || account.disabledAt) {
    throw unauthenticated("The service account of this API key is disabled.");
  }
  return account;
}

/**
 * The tenant and the role come from the membership table on every request: a person who was removed
 * is out with the next one, whatever the session says. A session by single sign-on is good for one tenant.
 */
async function byMembership(
  authenticator: Authenticator,
  { userId, id, authenticatedAt, ssoOrganizationId }: LiveSession,
  wanted: string | null,
  preferred: string | undefined,
): Promise<Principal> {
  const { db, clock } = authenticator;
  const isSingleSignOn = ssoOrganizationId !== undefined;
  const memberships = (await db.signIn.membershipsOf(userId)).filter(
    (each) => !isSingleSignOn || each.organizationId === ssoOrganizationId,
  );
  // A preference must not keep the person out of the others.
  const usable = memberships.filter((each) => isSingleSignOn || !each.requiresSso);
  const membership =
    wanted === null
      ? (usable.find((each) => each.organizationId === preferred) ?? usable[0] ?? memberships[0])
      : memberships.find((each) => each.organizationId === wanted && isId("org", wanted));
  if (membership) {
    const { organizationId, role, customRole, organization } = membership;
    if (membership.requiresSso && !isSingleSignOn) throw ssoRequired(organization);
    const now = clock.now();
    const touched = membership.lastUsedAt?.getTime() ?? 0;
    if (now.getTime() - touched > MEMBER_USE_RESOLUTION_MS) {
      await db.tenant(organizationId).members.touch(organizationId, userId, now);
    }
    const session = { id, authenticatedAt, isSingleSignOn };
    return { organizationId, role, customRole, userId, apiKeyId: undefined, session };
  }
  // Platform operators are members of no organization, so that others pay nothing for them.
  const operator =
    memberships.length === 0 && !isSingleSignOn
      ? await impersonatedPrincipal(authenticator, { id, authenticatedAt }, wanted)
      : undefined;
  if (operator) return operator;
  if (wanted !== null) throw notFound("organization", wanted);
  throw new DomainError("forbidden", "You do not belong to any organization.", {
    remedy: "Ask an owner of your organization for an invitation.",
  });
}

/** A cookie travels with requests that other sites' pages make; those must change nothing. */
export function assertOwnPage(
  { trustedOrigins }: Pick<Authenticator, "trustedOrigins">,
  request: Pick<Credentials, "method" | "headers">,
): void {
  if (request.method === "GET" || request.method === "HEAD") return;
  const origin = request.headers.get("origin");
  if (origin === null || trustedOrigins.includes(origin)) return;
  throw new DomainError("forbidden", `Requests from ${origin} are not allowed with this session.`, {
    remedy: "Use the console, or an API key.",
  });
}

function ssoRequired({ name, slug }: Organization): DomainError {
  return new DomainError("sso_required", `${name} requires single sign-on.`, {
    remedy: `Sign out, then continue with single sign-on as ${slug}.`,
  });
}

function unauthenticated(message = "The credentials are missing or invalid."): DomainError {
  return new DomainError("unauthenticated", message, {
    remedy: "Send a valid API key as `Authorization: Bearer mrk_…`, or sign in.",
  });
}
