import { randomUUID } from "node:crypto";
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { serve } from "@hono/node-server";
import { DomainError } from "@millrace/domain";
import { toProblem } from "@millrace/router";

/**
 * The longest cursor of records (16 KiB) may come twice, in the query and as `Last-Event-ID`, beside three search texts
 * of 4 KiB. Node's own 16 KiB would end the walk through a topic of many partitions.
 */
const HEADER_BYTES_MAX = 64 * 1024;

/** Serves the app over HTTP/1.1. What is no request, or too long a one, gets problem details too. */
export function listen(app: {
  readonly fetch: (request: Request) => Response | Promise<Response>;
  readonly hostname: string;
  readonly port: number;
}): Server {
  const server = serve({ ...app, serverOptions: { maxHeaderSize: HEADER_BYTES_MAX } }) as Server;
  server.on("clientError", refuse);
  return server;
}

/** Node hands over the socket: the request has not become one, and no handler sees it. */
function refuse(error: NodeJS.ErrnoException, socket: Socket): void {
  // A reader that has left; or an answer is on its way already, which another one would garble.
  if (error.code === "ECONNRESET" || !socket.writable || socket.bytesWritten > 0) {
    socket.destroy();
    return;
  }
  const refusal = refusalOf(error);
  const body = JSON.stringify(toProblem(refusal, { requestId: randomUUID(), instance: "" }));
  const lines = [
    `HTTP/1.1 ${refusal.status} ${refusal.title}`,
    "Content-Type: application/problem+json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "Connection: close",
  ];
  socket.end(`${lines.join("\r\n")}\r\n\r\n${body}`);
}

function refusalOf(error: NodeJS.ErrnoException): DomainError {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW":
      return new DomainError(
        "headers_too_large",
        `The request line and headers have at most ${HEADER_BYTES_MAX} bytes.`,
        { remedy: "Send shorter query parameters and headers." },
      );
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new DomainError("request_timed_out", "The request did not arrive in time.");
    default:
      return new DomainError("validation_failed", "This is not an HTTP/1.1 request.");
  }
}
