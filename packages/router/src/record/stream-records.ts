import { streamRecords as contract, type RecordStreamItem } from "@millrace/contract";
import { streamRecords } from "@millrace/core";
import { RECORD_STREAM_MS_MAX } from "@millrace/domain";
import { type TrackedEnvelope, tracked } from "@trpc/server";
import { z } from "zod";
import { procedure } from "../procedure.ts";

/** A reader that has not taken the end of its stream by then has its connection cut. */
const END_MS_MAX = 60_000;

/** tRPC clients name the last event they have seen `lastEventId` when they connect again. */
const input = contract.input.safeExtend({ lastEventId: z.string().max(16_384).nullish() });

/** Connects before it answers, so that a refusal is an answer and not a broken stream. */
export const streamRecordsProcedure = procedure(contract.permission)
  .input(input)
  .subscription(async ({ ctx, input, signal }) => {
    const { cluster_id: clusterId, topic_name: topicName, ...rest } = input;
    const { last_event_id, lastEventId, newest, offset, time, from, cursor, ...filters } = rest;
    const last = lastEventId ?? last_event_id;
    // A reader that comes back sends its first request again, start included.
    const start = last === undefined ? { newest, offset, time, from, cursor } : { cursor: last };
    const items = await streamRecords(ctx.core, ctx.principal, {
      clusterId,
      topicName,
      selection: { ...filters, ...start },
      signal: signal ? AbortSignal.any([signal, ctx.signal]) : ctx.signal,
    });
    ctx.cutAfter(RECORD_STREAM_MS_MAX + END_MS_MAX);
    return trackedItems(items);
  });

type Items = Awaited<ReturnType<typeof streamRecords>>;

/** Items with their cursors as ids; an item that comes before any cursor has none. */
async function* trackedItems(
  items: Items,
): AsyncGenerator<TrackedEnvelope<RecordStreamItem> | RecordStreamItem, void, undefined> {
  for await (const { cursor, item } of items) yield cursor ? tracked(cursor, item) : item;
}
