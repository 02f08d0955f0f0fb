/** One call to a broker whose link is here. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { type ClientHttp2Stream, constants } from "node:http2";
import { GATEWAY_ERROR_HEADER, LINK_HEADERS } from "@millrace/domain";
import { passAnswer } from "./answer.ts";
import { ANSWER_HEAD_MS_MAX, BODY_STALL_MS_MAX } from "./bounds.ts";
import { CallError } from "./call-error.ts";
import type { Link } from "./link.ts";
import { hasBody, passedRequestHeaders } from "./passed-headers.ts";

type Head = IncomingHttpHeaders & { readonly ":status"?: number };

/**
 * Passes the request to the broker and its answer to the caller. Never sends a request twice.
 *
 * @throws CallError, after which the caller may still be answered.
 */
export async function callBroker(
  link: Link,
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const isEmpty = !hasBody(request.headers);
  const { clusterId, brokerId } = link.info;
  const stream = await link.request(
    {
      // Where the caller names no broker, it means the one of the address.
      [LINK_HEADERS.cluster]: clusterId,
      [LINK_HEADERS.broker]: String(brokerId),
      ...passedRequestHeaders(request.headers),
      ":method": request.method ?? "GET",
      ":path": path,
    },
    isEmpty,
  );
  const cancel = () => stream.close(constants.NGHTTP2_CANCEL);
  stream.once("close", () => {
    response.off("close", cancel);
    link.release();
  });
  // Without a listener an error would end the process; "close" follows it.
  stream.on("error", () => {});
  stream.setTimeout(BODY_STALL_MS_MAX, cancel);
  response.once("close", cancel);
  if (response.destroyed) cancel();
  // Not a pipeline: a broker that refuses a body half-way must not cost the caller the connection with the answer.
  if (!isEmpty) request.on("error", cancel).pipe(stream);
  try {
    const head = await headOf(stream, link);
    link.heard();
    assertRightBroker(head, link);
    const isWhole = () => stream.rstCode === constants.NGHTTP2_NO_ERROR && !link.hasEnded;
    const status = Number(head[":status"]);
    // A broker cannot speak for the gateway.
    const { [GATEWAY_ERROR_HEADER]: _, ...headers } = head;
    await passAnswer({ status, headers, body: stream, isWhole }, response);
  } catch (error) {
    cancel();
    throw error;
  } finally {
    request.unpipe(stream);
  }
}

/** Waits for the head of the answer. */
function headOf(stream: ClientHttp2Stream, link: Link): Promise<Head> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      const message = `The broker did not answer in ${ANSWER_HEAD_MS_MAX / 1_000} s; it may have carried out the request.`;
      reject(new CallError("BROKER_TIMEOUT", message));
    }, ANSWER_HEAD_MS_MAX);
    stream.once("response", (headers) => {
      clearTimeout(timer);
      resolve(headers as Head);
    });
    stream.once("close", () => {
      clearTimeout(timer);
      reject(brokenOff(stream, link));
    });
  });
}

function brokenOff(stream: ClientHttp2Stream, link: Link): CallError {
  // RFC 9113, 8.7: the broker has not looked at the request.
  if (stream.rstCode === constants.NGHTTP2_REFUSED_STREAM) {
    return new CallError("BROKER_NOT_CONNECTED", "The broker did not take the request.");
  }
  const what = link.isOpen
    ? "The broker broke the request off"
    : "The broker's connection ended after the request was sent";
  return new CallError("BROKER_DISCONNECTED", `${what}: it may have carried the request out.`);
}

/**
 * Every answer of a broker names it, errors included. A link whose broker does not, or says that it is another one, is cut.
 *
 * @throws CallError `WRONG_BROKER`
 */
function assertRightBroker(head: Head, link: Link): void {
  const { clusterId, brokerId } = link.info;
  const { [LINK_HEADERS.cluster]: cluster = "?", [LINK_HEADERS.broker]: broker = "?" } = head;
  if (cluster !== clusterId || broker !== String(brokerId)) {
    link.end(`the broker answered as broker ${broker} of ${cluster}`);
    throw new CallError("WRONG_BROKER", `Broker ${broker} of ${cluster} has answered instead.`);
  }
  if (head[":status"] === constants.HTTP_STATUS_MISDIRECTED_REQUEST) {
    throw new CallError("WRONG_BROKER", "The request is for another broker than its address.");
  }
}
