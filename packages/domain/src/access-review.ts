/** The access review: every way into an organization, and what of it somebody should look at. */
import type { HeldCustomRole } from "./custom-role.ts";
import type { Id } from "./id.ts";
import type { Permission, Role } from "./role.ts";
import type { Changer } from "./tuning.ts";

/** Access that nobody used for so long is probably not needed any more. */
export const ACCESS_UNUSED_DAYS = 90;
/** API keys of one review, newest first; members, invitations and service accounts have bounds of their own. */
export const ACCESS_REVIEW_KEYS_MAX = 2_000;

export const ACCESS_KINDS = ["member", "service_account", "api_key", "invitation"] as const;
export type AccessKind = (typeof ACCESS_KINDS)[number];

export const SIGN_IN_METHODS = ["password", "single_sign_on"] as const;
export type SignInMethod = (typeof SIGN_IN_METHODS)[number];

/**
 * - `owner`             has every permission;
 * - `never_used`        since it was made;
 * - `unused`            for `ACCESS_UNUSED_DAYS`;
 * - `no_second_factor`  a password alone opens it.
 */
export const ACCESS_FINDINGS = ["owner", "never_used", "unused", "no_second_factor"] as const;
export type AccessFinding = (typeof ACCESS_FINDINGS)[number];

/** One way into an organization. */
export interface Access {
  readonly kind: AccessKind;
  readonly id: Id<"mem" | "svc" | "key" | "inv">;
  /** The mail address of a person, the name of what is no person; `<account>/<key>` of a service account's key. */
  readonly name: string;
  readonly role: Role;
  readonly customRole: HeldCustomRole | undefined;
  /** What narrows an API key. */
  readonly permissions: readonly Permission[] | undefined;
  readonly createdAt: Date;
  /** Of a service account: of any of its keys. Invitations are not used before they are accepted. */
  readonly lastUsedAt: Date | undefined;
  readonly expiresAt: Date | undefined;
  /** Of a member. */
  readonly hasSecondFactor: boolean | undefined;
  /** How a member can sign in here. */
  readonly signIn: readonly SignInMethod[];
  /** Of a service account. */
  readonly isDisabled: boolean;
}

export interface AccessReviewCounts {
  readonly total: number;
  readonly kinds: Readonly<Record<AccessKind, number>>;
  readonly findings: Readonly<Record<AccessFinding, number>>;
}

/** That somebody reviewed the access there was. */
export interface AccessReview {
  readonly id: Id<"rev">;
  readonly reviewedBy: Changer;
  readonly reviewedAt: Date;
  readonly counts: AccessReviewCounts;
}

/** What of this access somebody should look at. */
export function findingsOf(access: Access, now: Date): AccessFinding[] {
  const { kind, role, permissions, lastUsedAt, hasSecondFactor, signIn } = access;
  const unusedSince = now.getTime() - ACCESS_UNUSED_DAYS * 24 * 3_600_000;
  const isTrue: Record<AccessFinding, boolean> = {
    owner: role === "owner" && permissions === undefined,
    never_used: kind !== "invitation" && lastUsedAt === undefined,
    unused: lastUsedAt !== undefined && lastUsedAt.getTime() <= unusedSince,
    no_second_factor: hasSecondFactor === false && signIn.includes("password"),
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

function countsOf<T extends string>(names: readonly T[], found: readonly T[]): Record<T, number> {
  const counts = names.map((name) => [name, found.filter((each) => each === name).length]);
  return Object.fromEntries(counts) as Record<T, number>;
}
