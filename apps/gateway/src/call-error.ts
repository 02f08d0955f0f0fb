import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import { GATEWAY_ERROR_HEADER, GATEWAY_ERRORS, type GatewayErrorCode } from "@millrace/domain";

/** An answer of the gateway's own. */
export class CallError extends Error {
  override readonly name = "CallError";
  readonly code: GatewayErrorCode;

  constructor(code: GatewayErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/** Codes after which the same call may succeed in a moment, and which the broker has not seen. */
const SOON: readonly GatewayErrorCode[] = ["BROKER_BUSY", "BROKER_NOT_CONNECTED"];

/** Answers a call with the error, or cuts the answer off where it has begun. */
export function answerError(response: ServerResponse, { code, message }: CallError): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const body = JSON.stringify({ error: { code, message } });
  const headers: OutgoingHttpHeaders = {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    [GATEWAY_ERROR_HEADER]: code,
    ...(SOON.includes(code) && { "retry-after": "1" }),
  };
  response.writeHead(GATEWAY_ERRORS[code], headers).end(body);
}
