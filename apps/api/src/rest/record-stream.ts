import type { RecordStreamItem, StreamType } from "@millrace/contract";
import { toDomainError } from "@millrace/router";
import type { Context } from "hono";
import type { ApiEnv } from "../request-context.ts";

/** An item, with the cursor that continues after it where there is one. */
type Item = RecordStreamItem | readonly [cursor: string, item: RecordStreamItem, ...unknown[]];

/**
 * Records as NDJSON or server-sent events. An item is asked for when the caller's socket has taken
 * the one before: a caller that stops reading stops the broker. `gone` is aborted when the caller
 * has left. The broker's progress items keep a silent connection open.
 */
export function recordStream(
  c: Context<ApiEnv>,
  items: AsyncIterable<Item>,
  type: StreamType,
  gone: AbortController,
): Response {
  const iterator = items[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  const frame = type === "text/event-stream" ? eventOf : lineOf;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await iterator.next();
          if (!done) return controller.enqueue(encoder.encode(frame(value)));
          controller.close();
          gone.abort();
        } catch (error) {
          const { code, message } = toDomainError(error);
          // The caller has left, or this server stops: callers come back with their cursor.
          if (gone.signal.aborted) return controller.close();
          if (code === "internal") return controller.error(error);
          controller.enqueue(encoder.encode(frame({ error: { code, message } })));
          controller.close();
          gone.abort();
        }
      },
      cancel: () => gone.abort(),
    },
    // Nothing is read ahead of the caller.
    { highWaterMark: 0 },
  );
  return c.body(body, 200, {
    "Content-Type": type,
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
  });
}

function lineOf(each: Item): string {
  const [cursor, item] = parts(each);
  return `${JSON.stringify(cursor === undefined ? item : { ...item, cursor })}\n`;
}

function eventOf(each: Item): string {
  const [cursor, item] = parts(each);
  const kind = item.record ? "record" : item.progress ? "progress" : "error";
  const id = cursor === undefined ? "" : `id: ${cursor}\n`;
  return `event: ${kind}\n${id}data: ${JSON.stringify(item)}\n\n`;
}

function parts(each: Item): readonly [cursor: string | undefined, item: RecordStreamItem] {
  return "length" in each ? [each[0], each[1]] : [undefined, each];
}
