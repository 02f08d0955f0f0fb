import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import { LINK_HEADERS } from "@millrace/domain";

const PASSED_REQUEST_HEADERS: ReadonlySet<string> = new Set([
  "accept",
  "content-type",
  "idempotency-key",
  "if-match",
  "if-modified-since",
  "if-none-match",
  "if-range",
  "if-unmodified-since",
  "last-event-id",
  "range",
  // The ids of the broker that the caller means.
  LINK_HEADERS.cluster,
  LINK_HEADERS.broker,
]);

/**
 * Of one connection (RFC 9110, 7.6.1), and the length: a broker that lies about it could put an answer of its own
 * behind it on the caller's connection.
 */
const DROPPED_ANSWER_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "keep-alive",
  "proxy-authenticate",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** What of a call's headers the broker gets. The caller's own credential is not among them. */
export function passedRequestHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      PASSED_REQUEST_HEADERS.has(name) && value !== undefined ? [[name, String(value)]] : [],
    ),
  );
}

/** What of an answer's headers the caller gets. */
export function passedAnswerHeaders(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  return Object.fromEntries(
    Object.entries(headers).filter(
      ([name]) => !name.startsWith(":") && !DROPPED_ANSWER_HEADERS.has(name),
    ),
  );
}

/** Whether a message with these headers has a body (RFC 9112, 6.3). */
export function hasBody(headers: IncomingHttpHeaders): boolean {
  const length = headers["content-length"];
  return headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0");
}
