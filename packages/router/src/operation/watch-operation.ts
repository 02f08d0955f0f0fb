import { watchOperation as contract, SEQ_MAX } from "@millrace/contract";
import { watchOperation } from "@millrace/core";
import type { OperationEvent } from "@millrace/domain";
import { tracked } from "@trpc/server";
import { z } from "zod";
import { procedure } from "../procedure.ts";
import { presentOperationEvent } from "./present-operation.ts";

/** tRPC clients name the last event they have seen `lastEventId` when they connect again. */
const input = contract.input.safeExtend({
  lastEventId: z.coerce.number<string | number>().int().min(0).max(SEQ_MAX).nullish(),
});

/** Takes its slot before it answers, so that a refusal is an answer and not a broken stream. */
export const watchOperationProcedure = procedure(contract.permission)
  .input(input)
  .subscription(async ({ ctx, input, signal }) => {
    const events = watchOperation(ctx.core, ctx.principal, {
      operationId: input.operation_id,
      afterSeq: input.lastEventId ?? input.last_event_id ?? 0,
      signal: signal ? AbortSignal.any([signal, ctx.signal]) : ctx.signal,
    });
    return trackedEvents(events);
  });

async function* trackedEvents(events: AsyncIterable<OperationEvent>) {
  for await (const event of events) {
    yield tracked(String(event.seq), presentOperationEvent(event));
  }
}
