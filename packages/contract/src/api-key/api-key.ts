import { PERMISSIONS, ROLES } from "@millrace/domain";
import { z } from "zod";
import { timestamp } from "../field.ts";

/** A key without its secret. */
export const ApiKey = z
  .object({
    id: z.string(),
    name: z.string(),
    role: z.enum(ROLES),
    service_account_id: z.string().nullable().meta({
      description: "The service account that the key belongs to; `role` is then the account's",
    }),
    hint: z.string(),
    created_at: timestamp,
    expires_at: timestamp.nullable(),
    last_used_at: timestamp.nullable(),
    permissions: z.array(z.enum(PERMISSIONS)).nullable().meta({
      description: "Permissions of the role that the key has; null: all of them",
    }),
    allowed_addresses: z.array(z.string()).meta({
      description: "Addresses and CIDR blocks that the key works from; empty: any",
    }),
    previous_valid_until: timestamp.nullable().meta({
      description: "Until when the secret before the last rotation works",
    }),
  })
  .meta({ id: "ApiKey" });
export type ApiKey = z.infer<typeof ApiKey>;

export const ApiKeyWithSecret = ApiKey.extend({ secret: z.string() }).meta({
  id: "ApiKeyWithSecret",
});
