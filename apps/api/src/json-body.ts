import { DomainError } from "@millrace/domain";
import type { Context } from "hono";

/** The body of a request outside REST v1. */
export async function jsonBody(c: Context): Promise<unknown> {
  try {
    return await c.req.json();
  } catch (cause) {
    throw new DomainError("validation_failed", "The body must be JSON.", { cause });
  }
}
