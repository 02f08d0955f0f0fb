/** Single sign-on: what an organization's identity provider is, and which addresses it may vouch for. */
import { DomainError } from "./error.ts";
import type { OrganizationId, SsoConnectionId } from "./id.ts";
import { ROLES, type Role } from "./role.ts";

/** Mail domains of one connection. */
export const SSO_DOMAINS_MAX = 20;
/** OpenID Connect Core 1.0, section 2: a subject has at most 255 ASCII characters. */
export const SSO_SUBJECT_MAX = 255;
/** Domain names have at most 253 characters (RFC 1035). */
export const SSO_DOMAIN_LENGTH_MAX = 253;
/** Lower case, at least two labels, no trailing dot (RFC 1123). */
export const SSO_DOMAIN_PATTERN =
  /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$/;
/** Roles that a first sign-in can give. Nobody becomes an owner by signing in. */
export const SSO_ROLES = ROLES.filter((role) => role !== "owner");

/** How members of an organization sign in through its own OpenID provider. */
export interface SsoConnection {
  readonly id: SsoConnectionId;
  readonly organizationId: OrganizationId;
  readonly issuer: string;
  readonly clientId: string;
  /** Mail domains that the provider may vouch for, sorted. */
  readonly domains: readonly string[];
  /** Of whoever signs in for the first time. */
  readonly defaultRole: Role;
  /** Whether members other than owners get no access with a password. */
  readonly required: boolean;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** The domain of a mail address, in lower case; undefined where there is none. */
export function mailDomainOf(address: string): string | undefined {
  const domain = /^[^@\s]+@([^@\s]+)$/.exec(address)?.[1]?.toLowerCase();
  return domain !== undefined && SSO_DOMAIN_PATTERN.test(domain) ? domain : undefined;
}

/** Why a sign-in through an identity provider was refused. The console has a text for each. */
export const SSO_REFUSALS = [
  /** The attempt was begun in another browser, too long ago, or never. */
  "expired",
  /** The person cancelled at the provider. */
  "cancelled",
  /** Another person than the one who is signed in proved their identity. */
  "other_person",
  /** The provider refused, did not answer, or its answer is not to be trusted. */
  "provider",
  "email_unverified",
  "domain_not_allowed",
  /** The address has an account that is no member. Its owner has to accept an invitation first. */
  "account_exists",
  /** The person was removed from the organization. */
  "removed",
  "limit_exceeded",
  /** A fault of this installation. */
  "internal",
] as const;
export type SsoRefusal = (typeof SSO_REFUSALS)[number];

export class SsoRefused extends DomainError {
  readonly refusal: SsoRefusal;

  constructor(refusal: SsoRefusal, message: string, details: { cause?: unknown } = {}) {
    super("sso_failed", message, details);
    this.refusal = refusal;
  }
}
