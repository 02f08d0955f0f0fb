import { ulid } from "ulidx";

/**
 * Prefix of every kind of id. An id is `<prefix>_<ULID>`: it names its kind to a reader, sorts by
 * creation time, and is never reused. Prefixes are part of the public API and never change.
 */
export const ID_PREFIXES = [
  "org",
  "env",
  "clu",
  "op",
  "key",
  "svc",
  "rol",
  "rev",
  "usr",
  "ses",
  "acc",
  "ver",
  "mem",
  "inv",
  "rlm",
  "tfa",
  "req",
  "tch",
  "bmk",
  "aud",
  "sso",
  "mai",
  "imp",
] as const;

export type IdPrefix = (typeof ID_PREFIXES)[number];
export type Id<P extends IdPrefix> = `${P}_${string}`;

export type OrganizationId = Id<"org">;
export type EnvironmentId = Id<"env">;
export type ClusterId = Id<"clu">;
export type OperationId = Id<"op">;
export type ApiKeyId = Id<"key">;
export type CustomRoleId = Id<"rol">;
export type ServiceAccountId = Id<"svc">;
export type UserId = Id<"usr">;
export type SessionId = Id<"ses">;
export type MemberId = Id<"mem">;
export type InvitationId = Id<"inv">;
export type TuningChangeId = Id<"tch">;
export type BenchmarkId = Id<"bmk">;
export type AuditEventId = Id<"aud">;
export type SsoConnectionId = Id<"sso">;
export type OutgoingMailId = Id<"mai">;
export type ImpersonationId = Id<"imp">;

/** A ULID in Crockford's base 32: 128 bits, so the first character is at most 7. */
const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

/** A new id whose time part is `atMs` (milliseconds since the epoch, now by default). */
export function newId<P extends IdPrefix>(prefix: P, atMs: number = Date.now()): Id<P> {
  return `${prefix}_${ulid(atMs)}`;
}

/** Whether `value` is a well-formed id of the kind that `prefix` names. */
export function isId<P extends IdPrefix>(prefix: P, value: string): value is Id<P> {
  return value.startsWith(`${prefix}_`) && ULID.test(value.slice(prefix.length + 1));
}
