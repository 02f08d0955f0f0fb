/** What of the audit log somebody looks at. Pure, so that it is tested alone. */
import type { AuditResult } from "@millrace/domain";

export interface AuditFilter {
  /** A kind of method such as `cluster`; empty: all. */
  readonly kind: string;
  /** Empty: all. */
  readonly result: AuditResult | "";
  /** ID of a cluster, operation, environment or key; empty: all. */
  readonly targetId: string;
  readonly period: Period;
}

export const PERIODS = { day: "Last 24 hours", week: "Last 7 days", all: "All time" } as const;
export type Period = keyof typeof PERIODS;
const PERIOD_MS = { day: 24 * 3_600_000, week: 7 * 24 * 3_600_000 } as const;

export const ANY_EVENT: AuditFilter = { kind: "", result: "", targetId: "", period: "all" };

const TITLES: Readonly<Record<string, string>> = {
  accessReview: "Access reviews",
  account: "Accounts",
  acl: "ACLs",
  apiKey: "API keys",
  benchmark: "Benchmarks",
  cluster: "Clusters",
  environment: "Environments",
  impersonation: "Impersonations",
  invitation: "Invitations",
  member: "Members",
  operation: "Operations",
  outgoingMail: "Mail outbox",
  quota: "Quotas",
  record: "Records",
  role: "Custom roles",
  serviceAccount: "Service accounts",
  serviceAccountKey: "Keys of service accounts",
  session: "Sign-ins and sessions",
  singleSignOn: "Single sign-on",
  topic: "Topics",
  tuning: "Tuning",
  user: "Users",
};

/** Kinds of methods that change something. */
export const KINDS = Object.entries(TITLES).map(([value, label]) => ({ value, label }));

/** The filter as the API takes it. A period begins on a whole minute, so that it is the same query for a while. */
export function auditQueryOf({ kind, result, targetId, period }: AuditFilter, now: number) {
  const target = targetId.trim();
  const minute = Math.floor(now / 60_000) * 60_000;
  return {
    ...(kind !== "" && { method: kind }),
    ...(result !== "" && { result }),
    ...(target !== "" && { target_id: target }),
    ...(period !== "all" && { from: new Date(minute - PERIOD_MS[period]).toISOString() }),
  };
}

/** Where the browser downloads the events of the filter. */
export function exportHref(filter: AuditFilter, now: number): string {
  const query = new URLSearchParams(auditQueryOf(filter, now));
  return query.size === 0 ? "/v1/audit-events/export" : `/v1/audit-events/export?${query}`;
}

/** Fields that differ between the target before and after, in order of their names. */
export function changedFields(
  before: Readonly<Record<string, unknown>> | null,
  after: Readonly<Record<string, unknown>> | null,
): { field: string; from: string; to: string }[] {
  const fields = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].sort();
  return fields.flatMap((field) => {
    const [from, to] = [textOf(before?.[field]), textOf(after?.[field])];
    return from === to ? [] : [{ field, from, to }];
  });
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}
