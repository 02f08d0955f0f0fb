import { ROLES } from "@millrace/domain";
import { z } from "zod";
import { timestamp } from "../field.ts";

/** A key without its secret. */
export const ApiKey = z
  .object({
    id: z.string(),
    name: z.string(),
    role: z.enum(ROLES),
    hint: z.string(),
    created_at: timestamp,
    expires_at: timestamp.nullable(),
    last_used_at: timestamp.nullable(),
  })
  .meta({ id: "ApiKey" });
export type ApiKey = z.infer<typeof ApiKey>;
