import type { MiddlewareHandler } from "hono";
import type { ApiEnv } from "./request-context.ts";

/** Two years, as lists of preloaded hosts ask for. */
const STRICT_TRANSPORT = "max-age=63072000";

/** Headers for browsers that read an answer as a page. `secure`: they reach the API by https. */
export function webHeaders(secure: boolean): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    await next();
    c.header("X-Content-Type-Options", "nosniff");
    c.header("Referrer-Policy", "no-referrer");
    c.header("Cross-Origin-Opener-Policy", "same-origin");
    if (secure) c.header("Strict-Transport-Security", STRICT_TRANSPORT);
    // The reference has a policy of its own; data loads nothing.
    if (c.res.headers.has("Content-Security-Policy")) return;
    c.header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
  };
}
