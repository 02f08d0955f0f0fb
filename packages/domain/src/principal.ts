import { grants, type HeldCustomRole } from "./custom-role.ts";
import type { ApiKeyId, OrganizationId, ServiceAccountId, SessionId, UserId } from "./id.ts";
import { allowsImpersonated, type Impersonation } from "./impersonation.ts";
import type { Permission, Role } from "./role.ts";

/** What narrows an API key, beside its role. */
export interface KeyLimits {
  /** Permissions of the role that it has; undefined: all of them. */
  readonly permissions: readonly Permission[] | undefined;
  /** Addresses and CIDR blocks that it works from; empty: any. */
  readonly allowedAddresses: readonly string[];
  readonly expiresAt: Date | undefined;
}

export interface PersonSession {
  readonly id: SessionId;
  readonly authenticatedAt: Date;
  /** Signed in through the organization's identity provider: the session is good for this organization alone. */
  readonly isSingleSignOn: boolean;
}

/**
 * Who sends a request, for which tenant, with which power. The tenant comes from our own membership
 * or API-key table on every request, never from something the client can choose freely.
 */
export interface Principal {
  readonly organizationId: OrganizationId;
  readonly role: Role;
  /** Of a person; `role` is then the least built-in role that has all of its permissions. */
  readonly customRole?: HeldCustomRole | undefined;
  /** The person behind the request; an API key has the person who made it only in its record. */
  readonly userId: UserId | undefined;
  readonly apiKeyId: ApiKeyId | undefined;
  /** The one that the API key belongs to. */
  readonly serviceAccountId?: ServiceAccountId | undefined;
  /** What narrows an API key. */
  readonly keyLimits?: KeyLimits | undefined;
  /** Of a person, and when they last proved who they are. */
  readonly session?: PersonSession | undefined;
  /** The platform operator who acts as `userId`; the session is the operator's. */
  readonly impersonation?: Impersonation | undefined;
}

/**
 * Stable name of the principal, for audit and for what is counted per caller. Of an impersonation it is the platform
 * operator, so that a further one resets no limit.
 */
export function principalKey(principal: Principal): string {
  const id = principal.impersonation?.operator.id ?? principal.apiKeyId ?? principal.userId;
  if (id === undefined) throw new Error("a principal is a user or an API key");
  return id;
}

/** Whether the role grants the permission, and neither a key's own limits nor an impersonation take it away. */
export function mayDo(principal: Principal, permission: Permission): boolean {
  const { keyLimits, impersonation } = principal;
  if (!grants(principal, permission)) return false;
  if (impersonation && !allowsImpersonated(impersonation, permission)) return false;
  return keyLimits?.permissions?.includes(permission) ?? true;
}

/**
 * The organization that the principal's session is limited to. An identity provider that one tenant chose must
 * neither show nor change what the same person has elsewhere, and neither must an impersonation.
 */
export function ssoScope({
  session,
  organizationId,
  impersonation,
}: Principal): OrganizationId | undefined {
  return session?.isSingleSignOn || impersonation ? organizationId : undefined;
}
