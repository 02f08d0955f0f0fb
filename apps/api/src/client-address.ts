import type { IncomingMessage } from "node:http";
import { CLIENT_IP_HEADER } from "@millrace/auth";

const LOOPBACK = new Set(["127.0.0.1", "::1", "::ffff:127.0.0.1"]);

/**
 * The request with the address of its client in a header of ours, for limits by address. What the
 * client itself put there is dropped. `X-Forwarded-For` counts only when the console on this
 * machine sent it.
 */
export function withClientAddress(
  request: Request,
  incoming: IncomingMessage | undefined,
): Request {
  const headers = new Headers(request.headers);
  headers.set(CLIENT_IP_HEADER, clientAddress(request.headers, incoming));
  return new Request(request, { headers });
}

/** The address of the other end, or what the console on this machine says of its own client. */
export function clientAddress(headers: Headers, incoming: IncomingMessage | undefined): string {
  const peer = incoming?.socket.remoteAddress ?? "127.0.0.1";
  if (!LOOPBACK.has(peer)) return peer;
  return headers.get("x-forwarded-for")?.split(",")[0]?.trim() || peer;
}
