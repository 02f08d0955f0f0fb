import type { RecordStreamItem, StreamType } from "@millrace/contract";
import type { Context } from "hono";
import type { ApiEnv } from "../request-context.ts";
import { pulledStream } from "./pulled-stream.ts";

/** An item, with the cursor that continues after it where there is one. */
type Item = RecordStreamItem | readonly [cursor: string, item: RecordStreamItem, ...unknown[]];

/**
 * Records as NDJSON or server-sent events: a caller that stops reading stops the broker. The broker's
 * progress items keep a silent connection open.
 */
export function recordStream(
  c: Context<ApiEnv>,
  items: AsyncIterable<Item>,
  type: StreamType,
  gone: AbortController,
): Response {
  return pulledStream(c, items, type, gone, type === "text/event-stream" ? eventOf : lineOf);
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
