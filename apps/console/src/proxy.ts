import { randomBytes } from "node:crypto";
import { type NextRequest, NextResponse } from "next/server";
import { NONCE_HEADER, pagePolicy } from "./api/page-policy.ts";
import { isServedOverTls } from "./env.ts";

const NONCE_BYTES = 16;
/** Two years, as lists of preloaded hosts ask for; other hosts of the domain are not ours to decide about. */
const STRICT_TRANSPORT = "max-age=63072000";

/**
 * Runs before each page (Next's file convention). Next reads the nonce from the policy of the request and
 * gives it to its own scripts; the layout reads it from a header of ours.
 */
export function proxy(request: NextRequest): NextResponse {
  const nonce = randomBytes(NONCE_BYTES).toString("base64");
  const secure = isServedOverTls();
  const policy = pagePolicy(nonce, secure);
  const headers = new Headers(request.headers);
  headers.set("Content-Security-Policy", policy);
  headers.set(NONCE_HEADER, nonce);
  const response = NextResponse.next({ request: { headers } });
  response.headers.set("Content-Security-Policy", policy);
  if (secure) response.headers.set("Strict-Transport-Security", STRICT_TRANSPORT);
  return response;
}

/** Pages only: files have no scripts to allow, and the API sends headers of its own. */
export const config = {
  matcher: ["/((?!_next/static|api/|trpc/|v1/|icon\\.svg|favicon\\.ico).*)"],
};
