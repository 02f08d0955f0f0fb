import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { CallError } from "./call-error.ts";
import { passedAnswerHeaders } from "./passed-headers.ts";

/** An answer whose head is there. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Readable;
  /** Asked once the body has ended: Node ends some that were broken off as if they were whole. */
  readonly isWhole: () => boolean;
}

/**
 * Passes an answer on, no faster than the caller takes it. Resolves once it has been passed on or has been cut off: the
 * caller of a cut-off answer sees its connection close.
 *
 * @throws CallError where the head is none that HTTP/1.1 can carry.
 */
export async function passAnswer(answer: Answer, response: ServerResponse): Promise<void> {
  const { status, headers, body, isWhole } = answer;
  try {
    if (!Number.isInteger(status) || status < 200 || status > 599) {
      throw new Error(`status ${status}`);
    }
    response.writeHead(status, passedAnswerHeaders(headers));
    response.flushHeaders();
  } catch (cause) {
    body.destroy();
    throw new CallError("BROKER_DISCONNECTED", "The broker's answer is no HTTP.", cause);
  }
  try {
    await pipeline(body, response, { end: false });
    if (isWhole()) response.end();
    else response.destroy();
  } catch {
    // Whichever of the two is left.
    body.destroy();
    response.destroy();
  }
}
