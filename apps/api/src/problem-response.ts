import { toDomainError, toProblem } from "@millrace/router";
import type { Context } from "hono";
import type { Logger } from "pino";
import type { ApiEnv } from "./request-context.ts";

/** Answers with problem details; faults of ours are logged with their cause. */
export function problemResponse(c: Context<ApiEnv>, log: Logger, error: unknown): Response {
  const known = toDomainError(error);
  const requestId = c.get("requestId");
  const problem = toProblem(known, { requestId, instance: c.req.path });
  if (known.status >= 500) log.error({ requestId, err: error }, "a request failed");
  const headers: Record<string, string> = {
    "Content-Type": "application/problem+json",
    "Cache-Control": "no-store",
  };
  if (known.status === 401) headers["WWW-Authenticate"] = 'Bearer realm="millrace"';
  if (known.retryAfterSeconds !== undefined) {
    headers["Retry-After"] = String(known.retryAfterSeconds);
  }
  return new Response(JSON.stringify(problem), { status: known.status, headers });
}
