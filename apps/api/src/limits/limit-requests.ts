import type { MiddlewareHandler } from "hono";
import type { Logger } from "pino";
import { addressNetwork } from "../client-address.ts";
import { problemResponse } from "../problem-response.ts";
import type { ApiEnv } from "../request-context.ts";

/** Refuses requests of an address that sends too many, and tells every caller what is left of its limits. */
export function limitRequests(log: Logger): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const charge = c.get("charge");
    if (charge === undefined) return next();
    try {
      charge.takeAddress(addressNetwork(c.get("context").clientAddress));
    } catch (error) {
      c.res = problemResponse(c, log, error);
    }
    if (c.finalized) return tell();
    await next();
    tell();

    function tell(): void {
      for (const [name, value] of Object.entries(charge?.headers() ?? {})) c.header(name, value);
    }
  };
}
