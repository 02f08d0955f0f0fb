import type { StreamType } from "@millrace/contract";
import { toDomainError } from "@millrace/router";
import type { Context } from "hono";
import type { ApiEnv } from "../request-context.ts";

/** The last item of a stream that fails. */
interface Failed {
  readonly error: { readonly code: string; readonly message: string };
}

/**
 * Items as text. An item is asked for when the caller's socket has taken the one before. `gone` is aborted
 * when the caller has left.
 */
export function pulledStream<T>(
  c: Context<ApiEnv>,
  items: AsyncIterable<T>,
  type: StreamType,
  gone: AbortController,
  frame: (item: T | Failed) => string,
): Response {
  const iterator = items[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
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
