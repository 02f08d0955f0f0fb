import { ROLES } from "@millrace/domain";
import { z } from "zod";
import { Actor } from "../actor.ts";
import { timestamp } from "../field.ts";

/** A pending invitation without its token. */
export const Invitation = z
  .object({
    id: z.string(),
    email: z.string(),
    role: z.enum(ROLES),
    invited_by: Actor,
    created_at: timestamp,
    expires_at: timestamp,
  })
  .meta({ id: "Invitation" });
export type Invitation = z.infer<typeof Invitation>;
