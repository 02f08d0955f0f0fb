import type { AuditEventId, OrganizationId, UserId } from "./id.ts";
import type { Changer } from "./tuning.ts";

/**
 * - `started`  is about to change something outside the database; the outcome follows;
 * - `success`  the change was made;
 * - `failure`  nothing was changed, `errorCode` says why;
 * - `denied`   the role does not grant it.
 */
export const AUDIT_RESULTS = ["started", "success", "failure", "denied"] as const;
export type AuditResult = (typeof AUDIT_RESULTS)[number];

/**
 * `invitation`: the link of one, by somebody without an account until then. `sso`: a sign-in that the
 * organization's own identity provider vouches for. `impersonation`: the session of a platform operator.
 */
export const AUTH_METHODS = [
  "session",
  "api_key",
  "password",
  "invitation",
  "sso",
  "impersonation",
] as const;
export type AuthMethod = (typeof AUTH_METHODS)[number];

/** A JSON object without secrets. */
export type AuditDetail = Readonly<Record<string, unknown>>;

/** One line of an organization's audit log. */
export interface AuditEvent {
  readonly id: AuditEventId;
  readonly organizationId: OrganizationId;
  /** Counts from 1 per organization, without gaps. */
  readonly seq: bigint;
  readonly createdAt: Date;
  readonly actor: Changer;
  /** The platform operator who acted as the actor. */
  readonly impersonator?: { readonly id: UserId; readonly name: string } | undefined;
  readonly authMethod: AuthMethod;
  readonly clientAddress: string;
  readonly requestId: string;
  /** The contract's name, such as `cluster.update`. */
  readonly method: string;
  /** What was changed, where it has an id. */
  readonly targetId: string | undefined;
  readonly result: AuditResult;
  readonly errorCode: string | undefined;
  /** What was asked for. */
  readonly request: AuditDetail | undefined;
  /** The target before and after the change. */
  readonly before: AuditDetail | undefined;
  readonly after: AuditDetail | undefined;
  /** SHA-256 over the hash of the event before and every field of this one. */
  readonly hash: Uint8Array;
}

/** Events of one export; a later one begins before the last. */
export const AUDIT_EXPORT_EVENTS_MAX = 100_000;

/** Strings of a detail are cut to this length. */
const TEXT_LENGTH_MAX = 1_000;
/** Items of a list, and fields of an object, that a detail keeps. */
const ITEMS_MAX = 50;
const DEPTH_MAX = 6;
/** A detail beyond this is replaced by its size. */
const DETAIL_BYTES_MAX = 16 * 1024;
const REDACTED = "[redacted]";
const SECRET_FIELD = /secret|password|passwd|token|credential|authorization|private.?key/i;
/** What customers write is theirs: the log says how much it was. */
const CONTENT_FIELDS: ReadonlySet<string> = new Set(["records"]);

/** The value as the audit log keeps it: bounded, without secrets and without customers' records. */
export function auditDetail(value: unknown): AuditDetail | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const kept = keep(value, 0) as AuditDetail;
  const bytes = new TextEncoder().encode(JSON.stringify(kept)).length;
  return bytes > DETAIL_BYTES_MAX ? { omitted_bytes: bytes } : kept;
}

/** The text as PostgreSQL can hold it: bounded, without U+0000 and half characters. */
export function auditText(text: string, lengthMax: number = TEXT_LENGTH_MAX): string {
  const cut = text.slice(0, lengthMax).replaceAll("\u0000", "\ufffd");
  return new TextDecoder().decode(new TextEncoder().encode(cut));
}

function keep(value: unknown, depth: number): unknown {
  if (typeof value === "string") return auditText(value);
  if (typeof value === "bigint") return value.toString();
  if (value instanceof Date) return value.toISOString();
  if (typeof value !== "object" || value === null) return value ?? null;
  if (depth === DEPTH_MAX) return "[omitted]";
  if (Array.isArray(value)) return value.slice(0, ITEMS_MAX).map((item) => keep(item, depth + 1));
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .slice(0, ITEMS_MAX)
      .map(([name, item]) => [auditText(name), keepField(name, item, depth)]),
  );
}

function keepField(name: string, item: unknown, depth: number): unknown {
  if (SECRET_FIELD.test(name)) return item === null ? null : REDACTED;
  if (CONTENT_FIELDS.has(name)) return Array.isArray(item) ? { count: item.length } : "[omitted]";
  return keep(item, depth + 1);
}
