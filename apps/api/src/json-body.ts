import { DomainError } from "@millrace/domain";
import type { Context } from "hono";
import { bodyText } from "./body-text.ts";

/** The body of a request outside REST v1. */
export async function jsonBody(c: Context): Promise<unknown> {
  const text = await bodyText(c);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new DomainError("validation_failed", "The body must be JSON.", { cause });
  }
}
