import type { OperationEvent } from "@millrace/contract";
import { toDomainError } from "@millrace/router";
import type { Context } from "hono";
import { type SSEStreamingApi, streamSSE } from "hono/streaming";
import type { ApiEnv } from "../request-context.ts";

/** Proxies cut connections that are silent for about a minute. */
const PING_INTERVAL_MS = 15_000;
/** How long a browser waits before it connects again. */
const RECONNECT_MS = 2_000;

/**
 * Server-sent events (WHATWG HTML, 9.2): `id` is the event's seq, so that a browser which lost the
 * connection goes on after the last event it has seen. The stream ends after `operation.succeeded`
 * or `operation.failed` with an event `end`, at which clients close. `gone` is aborted
 * when the reader has left; a stream that it ends has no `end`, so that browsers come back. Nor has
 * one whose reader has lost access: browsers come back and get the reason as an answer.
 */
export function eventStream(
  c: Context<ApiEnv>,
  events: AsyncIterable<readonly [id: string, data: OperationEvent, ...unknown[]]>,
  gone: AbortController,
): Response {
  c.header("X-Accel-Buffering", "no");
  return streamSSE(c, async (stream) => {
    stream.onAbort(() => gone.abort());
    const pings = setInterval(() => void stream.write(": ping\n\n"), PING_INTERVAL_MS);
    try {
      await pipe(stream, events, gone.signal);
    } finally {
      clearInterval(pings);
    }
  });
}

async function pipe(
  stream: SSEStreamingApi,
  events: AsyncIterable<readonly [id: string, data: OperationEvent, ...unknown[]]>,
  gone: AbortSignal,
): Promise<void> {
  try {
    for await (const [id, event] of events) {
      const data = JSON.stringify(event);
      await stream.writeSSE({ id, event: event.kind, data, retry: RECONNECT_MS });
    }
  } catch (error) {
    if (toDomainError(error).code === "internal") throw error;
    return;
  }
  if (!gone.aborted) await stream.writeSSE({ event: "end", data: "{}" });
}
