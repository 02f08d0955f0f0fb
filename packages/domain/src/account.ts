import type { HeldCustomRole } from "./custom-role.ts";
import type {
  ApiKeyId,
  EnvironmentId,
  InvitationId,
  MemberId,
  OrganizationId,
  ServiceAccountId,
  UserId,
} from "./id.ts";
import type { Permission, Role } from "./role.ts";
import type { Changer } from "./tuning.ts";

/** A tenant. */
export interface Organization {
  readonly id: OrganizationId;
  readonly name: string;
  readonly slug: string;
  readonly createdAt: Date;
}

export interface User {
  readonly id: UserId;
  readonly email: string;
  readonly name: string;
  readonly createdAt: Date;
}

/** A user's place in a tenant. */
export interface Membership {
  readonly organizationId: OrganizationId;
  readonly userId: UserId;
  /** The least one that has all permissions of the custom role, where there is one. */
  readonly role: Role;
  readonly customRole?: HeldCustomRole | undefined;
}

/** Characters of an email address (RFC 5321, erratum 1690). */
export const EMAIL_LENGTH_MAX = 254;

/** Characters of a person's password. The upper bound keeps a request from buying much of our time. */
export const PASSWORD_LENGTH_MIN = 12;
export const PASSWORD_LENGTH_MAX = 128;

/** A member's last use is exact to this time: the access review counts days. */
export const MEMBER_USE_RESOLUTION_MS = 3_600_000;
/** An API key's last use is exact to this time: one row update per minute is enough. */
export const KEY_USE_RESOLUTION_MS = 60_000;

/** The identity library's name for accounts with a password. */
export const PASSWORD_PROVIDER = "credential";

/** Members of one organization: lists stay short, and a leaked admin key cannot add people without end. */
export const MEMBERS_PER_ORGANIZATION_MAX = 1_000;

/** A membership as lists show it. */
export interface Member extends Membership {
  readonly id: MemberId;
  readonly email: string;
  readonly name: string;
  readonly createdAt: Date;
}

export const INVITATION_DAYS_DEFAULT = 7;
export const INVITATION_DAYS_MAX = 30;
/** Invitations of one organization that wait to be accepted. */
export const INVITATIONS_PENDING_MAX = 100;

/**
 * A role that waits for the person with this address. The token of its link is stored as a hash, and sealed in the mail
 * until somebody reads that.
 */
export interface Invitation {
  readonly id: InvitationId;
  readonly organizationId: OrganizationId;
  /** In lower case. */
  readonly email: string;
  readonly role: Role;
  readonly invitedBy: Changer;
  readonly createdAt: Date;
  readonly expiresAt: Date;
  readonly acceptedAt: Date | undefined;
  readonly revokedAt: Date | undefined;
}

export function isPending(invitation: Invitation, now: Date): boolean {
  const { acceptedAt, revokedAt, expiresAt } = invitation;
  return acceptedAt === undefined && revokedAt === undefined && expiresAt > now;
}

export const SERVICE_ACCOUNTS_PER_ORGANIZATION_MAX = 100;
/** Live keys of one service account: enough for a rotation of each of a few programs. */
export const KEYS_PER_SERVICE_ACCOUNT_MAX = 10;
/** Live keys of one organization that belong to no service account: an access review can list them all. */
export const API_KEYS_PER_ORGANIZATION_MAX = 1_000;
export const DESCRIPTION_LENGTH_MAX = 500;

/** A member that is no person: it has API keys, and cannot sign in. */
export interface ServiceAccount {
  readonly id: ServiceAccountId;
  readonly organizationId: OrganizationId;
  /** Unique within the organization. */
  readonly name: string;
  readonly description: string;
  /** The role of all of its keys. */
  readonly role: Role;
  readonly createdAt: Date;
  /** Since when its keys are rejected. */
  readonly disabledAt: Date | undefined;
}

/** A tenant's group of clusters; cluster names are unique within it. */
export interface Environment {
  readonly id: EnvironmentId;
  readonly organizationId: OrganizationId;
  readonly name: string;
  readonly createdAt: Date;
}

/** Ranges that a key can be restricted to. */
export const API_KEY_ADDRESSES_MAX = 20;
/** How long the secret before a rotation works on, unless somebody says otherwise. */
export const API_KEY_OVERLAP_HOURS_DEFAULT = 24;
export const API_KEY_OVERLAP_HOURS_MAX = 7 * 24;

/** An API key without its secret, which is shown once and stored only as a hash. */
export interface ApiKey {
  readonly id: ApiKeyId;
  readonly organizationId: OrganizationId;
  readonly name: string;
  /** That of its service account, where it belongs to one. */
  readonly role: Role;
  readonly serviceAccountId: ServiceAccountId | undefined;
  /** First characters of the secret, so that a person can tell keys apart. */
  readonly hint: string;
  readonly createdBy: UserId | undefined;
  readonly createdAt: Date;
  readonly expiresAt: Date | undefined;
  readonly lastUsedAt: Date | undefined;
  /** Permissions of the role that it has; undefined: all of them. */
  readonly permissions: readonly Permission[] | undefined;
  /** Addresses and CIDR blocks that it works from; empty: any. */
  readonly allowedAddresses: readonly string[];
  /** Until when the secret before the last rotation works. */
  readonly previousValidUntil: Date | undefined;
  readonly revokedAt: Date | undefined;
}

/** Whether the key is neither revoked nor expired. Whether its service account is live, it does not know. */
export function isLiveKey({ revokedAt, expiresAt }: ApiKey, now: Date): boolean {
  return revokedAt === undefined && (expiresAt === undefined || expiresAt > now);
}
