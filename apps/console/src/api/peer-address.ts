import { subscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";

/**
 * Appends the address of the other end to each request's `X-Forwarded-For`, as a proxy does. The API limits
 * and logs by the last hop that it does not trust. Next only adds the header where the client sent none, so
 * a client could claim any address.
 */
export function recordPeerAddresses(): void {
  subscribe("http.server.request.start", (message) => {
    const { request } = message as { request: IncomingMessage };
    const claimed = request.headers["x-forwarded-for"];
    const hops = [claimed, request.socket.remoteAddress].flat();
    request.headers["x-forwarded-for"] = hops.filter((hop) => hop !== undefined).join(", ");
  });
}
