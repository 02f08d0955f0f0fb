import { DomainError } from "@millrace/domain";
import type { Context } from "hono";

/**
 * The body of a request as text. Throws `validation_failed` for bytes that are not UTF-8, which a
 * lenient decoder would replace and the caller never sent.
 */
export async function bodyText(c: Context): Promise<string> {
  const bytes = await c.req.arrayBuffer();
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    const fields = [{ pointer: "", code: "malformed", message: "must be UTF-8" }];
    throw new DomainError("validation_failed", "The body must be UTF-8.", { fields, cause });
  }
}
