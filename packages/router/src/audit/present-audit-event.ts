import type { AuditEvent as EventShape } from "@millrace/contract";
import { type AuditEvent, validationFailed } from "@millrace/domain";

export function presentAuditEvent(event: AuditEvent): EventShape {
  return {
    id: event.id,
    seq: event.seq.toString(),
    created_at: event.createdAt.toISOString(),
    actor: { ...event.actor },
    impersonator: event.impersonator ? { ...event.impersonator } : null,
    auth_method: event.authMethod,
    client_address: event.clientAddress,
    request_id: event.requestId,
    method: event.method,
    target_id: event.targetId ?? null,
    result: event.result,
    error_code: event.errorCode ?? null,
    request: event.request ?? null,
    before: event.before ?? null,
    after: event.after ?? null,
    hash: Buffer.from(event.hash).toString("hex"),
  };
}

type Query = Partial<
  Pick<EventShape, "result" | "method"> & Record<"actor_id" | "target_id" | "from" | "to", string>
>;

/** The filter of a request in the core's terms. Throws `validation_failed` for a range that ends before it begins. */
export function auditFilter({
  actor_id,
  method,
  target_id,
  result,
  from,
  to,
}: {
  readonly [Name in keyof Query]?: Query[Name] | undefined;
}) {
  if (from !== undefined && to !== undefined && Date.parse(from) > Date.parse(to)) {
    throw validationFailed([
      { pointer: "/from", code: "out_of_range", message: "must not be later than to" },
    ]);
  }
  return {
    ...{ actorId: actor_id, targetId: target_id, method, result },
    from: from === undefined ? undefined : new Date(from),
    to: to === undefined ? undefined : new Date(to),
  };
}
