import { PERMISSIONS, ROLES } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { timestamp } from "../field.ts";
import { customRoleRef } from "../role/role.ts";

export const Me = z
  .object({
    user: z.object({ id: z.string(), email: z.string(), name: z.string() }).nullable(),
    api_key: z.object({ id: z.string(), name: z.string() }).nullable(),
    service_account: z.object({ id: z.string(), name: z.string() }).nullable().meta({
      description: "The service account that the API key belongs to",
    }),
    organization: z.object({ id: z.string(), name: z.string(), slug: z.string() }),
    role: z.enum(ROLES),
    custom_role: customRoleRef,
    permissions: z.array(z.enum(PERMISSIONS)).meta({ description: "What the caller may do" }),
    impersonation: z
      .object({
        operator: z.string(),
        reason: z.string(),
        write: z.boolean(),
        expires_at: timestamp,
      })
      .nullable()
      .meta({ description: "The platform operator who acts as the user, why and until when" }),
    /** Every tenant the user belongs to; a key belongs to one. */
    organizations: z.array(z.object({ id: z.string(), name: z.string(), role: z.enum(ROLES) })),
  })
  .meta({ id: "Me" });
export type Me = z.infer<typeof Me>;

export const getMe = defineContract({
  name: "account.me",
  method: "GET",
  path: "/v1/me",
  summary: "Get the caller",
  description: "The signed-in user or the API key, its organization and role.",
  tag: "Account",
  permission: "account:read",
  successStatus: 200,
  response: Me,
});
