import { randomUUID } from "node:crypto";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { serve } from "@hono/node-server";
import { DomainError } from "@millrace/domain";
import { toProblem } from "@millrace/router";

/**
 * The longest cursor of records (16 KiB) may come twice, in the query and as `Last-Event-ID`, beside three search texts
 * of 4 KiB. Node's own 16 KiB would end the walk through a topic of many partitions. The console forwards such requests:
 * `--max-http-header-size` in packages/launcher/src/start.ts and infra/images/Dockerfile is the same.
 */
const HEADER_BYTES_MAX = 64 * 1024;

/** Serves the app over HTTP/1.1. What is no request, or too long a one, gets problem details too. */
export function listen(app: {
  readonly fetch: (request: Request) => Response | Promise<Response>;
  readonly hostname: string;
  readonly port: number;
}): Server {
  const server = serve({ ...app, serverOptions: { maxHeaderSize: HEADER_BYTES_MAX } }) as Server;
  const openAnswers = new WeakMap<Socket, Set<ServerResponse>>();
  server.on("request", ({ socket }: IncomingMessage, answer: ServerResponse) => {
    const open = openAnswers.get(socket) ?? new Set();
    openAnswers.set(socket, open.add(answer));
    answer.once("close", () => open.delete(answer));
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    // The client has disconnected.
    const isGone = error.code === "ECONNRESET" || !socket.writable;
    if (isGone || ![...(openAnswers.get(socket) ?? [])].every(isReplaceable)) socket.destroy();
    else refuse(error, socket);
  });
  return server;
}

/**
 * Whether a refusal may take the answer's place: the rest of its request is what failed, and none of the answer has
 * been sent. Otherwise the client would take the refusal for a part of it, or for the answer to an earlier request.
 */
function isReplaceable({ headersSent, req }: ServerResponse): boolean {
  return !headersSent && !req.complete;
}

/** Node hands over the socket: the request was not read to its end. */
function refuse(error: NodeJS.ErrnoException, socket: Socket): void {
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
        `The request line and headers may have at most ${HEADER_BYTES_MAX.toLocaleString("en")} bytes.`,
        { remedy: "Send shorter query parameters and headers." },
      );
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new DomainError("request_timed_out", "The request did not arrive in time.");
    default:
      return new DomainError("validation_failed", "This is not an HTTP/1.1 request.");
  }
}
