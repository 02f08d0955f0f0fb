/** The access review: every way into an organization, and what of it somebody should look at. */
import {
  API_KEYS_PER_ORGANIZATION_MAX,
  KEYS_PER_SERVICE_ACCOUNT_MAX,
  SERVICE_ACCOUNTS_PER_ORGANIZATION_MAX,
} from "./account.ts";
import type { HeldCustomRole } from "./custom-role.ts";
import type { Id } from "./id.ts";
import { covers, type Permission, type Role } from "./role.ts";
import type { Changer } from "./tuning.ts";

/** Access that nobody used for so long is probably not needed any more. */
export const ACCESS_UNUSED_DAYS = 90;
/**
 * API keys of one review: as many as an organization can create. Some have more from before they were limited.
 * Members, invitations and service accounts have limits of their own.
 */
export const ACCESS_REVIEW_KEYS_MAX =
  API_KEYS_PER_ORGANIZATION_MAX +
  SERVICE_ACCOUNTS_PER_ORGANIZATION_MAX * KEYS_PER_SERVICE_ACCOUNT_MAX;

export const ACCESS_KINDS = [
  "member",
  "service_account",
  "api_key",
  "invitation",
  "single_sign_on",
] as const;
export type AccessKind = (typeof ACCESS_KINDS)[number];

export const SIGN_IN_METHODS = ["password", "single_sign_on"] as const;
export type SignInMethod = (typeof SIGN_IN_METHODS)[number];

/**
 * - `owner`             has every permission;
 * - `never_used`        since it was made;
 * - `unused`            for `ACCESS_UNUSED_DAYS`;
 * - `no_second_factor`  a password alone opens it;
 * - `default_admin`     single sign-on makes whoever signs in for the first time an admin.
 */
export const ACCESS_FINDINGS = [
  "owner",
  "never_used",
  "unused",
  "no_second_factor",
  "default_admin",
] as const;
export type AccessFinding = (typeof ACCESS_FINDINGS)[number];

/** One way into an organization. */
export interface Access {
  readonly kind: AccessKind;
  readonly id: Id<"mem" | "svc" | "key" | "inv" | "sso">;
  /** The mail address of a person, the name of what is no person; `<account>/<key>` of a service account's key; an issuer. */
  readonly name: string;
  /** Of single sign-on: the one that a first sign-in gives. */
  readonly role: Role;
  readonly customRole: HeldCustomRole | undefined;
  /** What an API key or a custom role is limited to. */
  readonly permissions: readonly Permission[] | undefined;
  readonly createdAt: Date;
  /** Of a service account: of any of its keys. Invitations are not used before they are accepted. */
  readonly lastUsedAt: Date | undefined;
  readonly expiresAt: Date | undefined;
  /** Of a member. */
  readonly hasSecondFactor: boolean | undefined;
  /** How a member can sign in here. */
  readonly signIn: readonly SignInMethod[];
  /** Of a service account and its keys. */
  readonly isDisabled: boolean;
  /** Of single sign-on: mail domains of those who can sign in. */
  readonly domains: readonly string[];
}

export interface AccessReviewCounts {
  readonly total: number;
  readonly kinds: Readonly<Record<AccessKind, number>>;
  readonly findings: Readonly<Record<AccessFinding, number>>;
}

/** Kinds that have a last use. Invitations are accepted, and single sign-on is used through members. */
const USED: ReadonlySet<AccessKind> = new Set(["member", "service_account", "api_key"]);

/** The record of a review. */
export interface AccessReview {
  readonly id: Id<"rev">;
  readonly reviewedBy: Changer;
  readonly reviewedAt: Date;
  readonly counts: AccessReviewCounts;
  /** Of the access that was reviewed; undefined for a record of a version without digests. */
  readonly digest: string | undefined;
  /** False for a record of a version that did not check. */
  readonly isComplete: boolean;
}

/** What of this access somebody should look at. */
export function findingsOf(access: Access, now: Date): AccessFinding[] {
  const { kind, role, permissions, lastUsedAt, hasSecondFactor, signIn } = access;
  const unusedSince = now.getTime() - ACCESS_UNUSED_DAYS * 24 * 3_600_000;
  const isTrue: Record<AccessFinding, boolean> = {
    owner: role === "owner" && permissions === undefined,
    never_used: USED.has(kind) && lastUsedAt === undefined,
    unused: lastUsedAt !== undefined && lastUsedAt.getTime() <= unusedSince,
    no_second_factor: hasSecondFactor === false && signIn.includes("password"),
    default_admin: kind === "single_sign_on" && covers(role, "admin"),
  };
  return ACCESS_FINDINGS.filter((finding) => isTrue[finding]);
}

export function countAccess(all: readonly Access[], now: Date): AccessReviewCounts {
  const findings = all.flatMap((access) => findingsOf(access, now));
  return {
    total: all.length,
    kinds: countsOf(
      ACCESS_KINDS,
      all.map(({ kind }) => kind),
    ),
    findings: countsOf(ACCESS_FINDINGS, findings),
  };
}

/** Counts of a version that knew fewer kinds and findings lack them. */
export function completeCounts(counts: AccessReviewCounts): AccessReviewCounts {
  return {
    total: counts.total,
    kinds: { ...countsOf(ACCESS_KINDS, []), ...counts.kinds },
    findings: { ...countsOf(ACCESS_FINDINGS, []), ...counts.findings },
  };
}

function countsOf<T extends string>(names: readonly T[], found: readonly T[]): Record<T, number> {
  const counts = names.map((name) => [name, found.filter((each) => each === name).length]);
  return Object.fromEntries(counts) as Record<T, number>;
}
