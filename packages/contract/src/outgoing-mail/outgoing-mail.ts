import { z } from "zod";
import { timestamp } from "../field.ts";

/** A mail without its text. */
export const OutgoingMail = z
  .object({
    id: z.string(),
    recipient: z.string(),
    subject: z.string(),
    created_at: timestamp,
    opened_at: timestamp.nullable().meta({
      description: "When somebody read the text, which is possible once",
    }),
  })
  .meta({ id: "OutgoingMail" });
export type OutgoingMail = z.infer<typeof OutgoingMail>;
