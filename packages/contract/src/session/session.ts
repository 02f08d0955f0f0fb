import { z } from "zod";
import { timestamp } from "../field.ts";

export const Session = z
  .object({
    id: z.string(),
    current: z.boolean().meta({ description: "Whether this request belongs to it" }),
    user_agent: z.string(),
    client_address: z.string().meta({ description: "Where the sign-in came from" }),
    created_at: timestamp,
    last_used_at: timestamp.meta({ description: "Accurate to one minute" }),
    expires_at: timestamp,
  })
  .meta({ id: "Session" });
export type Session = z.infer<typeof Session>;
