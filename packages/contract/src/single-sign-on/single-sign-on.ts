import { ROLES } from "@millrace/domain";
import { z } from "zod";
import { timestamp } from "../field.ts";

export const SsoConnection = z
  .object({
    id: z.string(),
    redirect_uri: z.string().meta({
      description: "To be registered at the identity provider; another connection has another",
    }),
    issuer: z.string(),
    client_id: z.string(),
    domains: z.array(z.string()),
    default_role: z.enum(ROLES),
    required: z.boolean(),
    created_at: timestamp,
    updated_at: timestamp,
  })
  .meta({ id: "SsoConnection" });
export type SsoConnection = z.infer<typeof SsoConnection>;

export const SingleSignOn = z
  .object({
    connection: SsoConnection.nullable().meta({ description: "null: not set up" }),
  })
  .meta({ id: "SingleSignOn" });
export type SingleSignOn = z.infer<typeof SingleSignOn>;
