import type { LogLevel, OperationEventKind, OperationId } from "@millrace/domain";
import type { Client } from "./client.ts";
import { Prisma } from "./generated/client.ts";

/** PostgreSQL channel on which the id of an operation is announced whenever it has a new event. */
export const OPERATION_CHANNEL = "millrace_operation";

export interface NewEvent {
  readonly kind: OperationEventKind;
  readonly step?: string | undefined;
  readonly message: string;
  readonly at?: Date | undefined;
  readonly level?: LogLevel | undefined;
  readonly address?: string | undefined;
}

/**
 * Adds events with the next seqs; readers are woken when the transaction commits. With `attempt`,
 * only while that attempt holds the operation. Says whether it did.
 */
export async function appendEvents(
  client: Client,
  operationId: OperationId,
  events: readonly NewEvent[],
  attempt?: number,
): Promise<boolean> {
  if (events.length === 0) return true;
  const fenced = attempt === undefined ? Prisma.empty : Prisma.sql`AND attempt = ${attempt}`;
  const rows = await client.$queryRaw<{ last_seq: number }[]>`
    UPDATE operation SET last_seq = last_seq + ${events.length}, updated_at = now()
    WHERE id = ${operationId} AND NOT done ${fenced}
    RETURNING last_seq`;
  const last = rows[0]?.last_seq;
  if (last === undefined) return false;
  const first = last - events.length + 1;
  await client.operationEvent.createMany({
    data: events.map((event, index) => ({
      operationId,
      seq: first + index,
      kind: event.kind,
      step: event.step ?? null,
      message: event.message,
      level: event.level ?? null,
      address: event.address ?? null,
      ...(event.at && { at: event.at }),
    })),
  });
  await client.$executeRaw`SELECT pg_notify(${OPERATION_CHANNEL}, ${operationId})`;
  return true;
}
