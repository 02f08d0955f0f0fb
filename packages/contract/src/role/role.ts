import { CUSTOM_ROLE_PERMISSIONS, LABEL_MAX } from "@millrace/domain";
import { z } from "zod";
import { plainText, timestamp } from "../field.ts";

export const roleName = plainText.trim().min(1).max(LABEL_MAX);
export const rolePermissions = z
  .array(z.enum(CUSTOM_ROLE_PERMISSIONS))
  .min(1)
  .max(CUSTOM_ROLE_PERMISSIONS.length)
  .meta({
    description:
      "The caller must have each of them. sso:read and sso:write are for owners only. account:read and account:write are always added",
  });

export const CustomRole = z
  .object({
    id: z.string(),
    name: z.string(),
    description: z.string(),
    permissions: z.array(z.enum(CUSTOM_ROLE_PERMISSIONS)),
    created_at: timestamp,
  })
  .meta({ id: "CustomRole" });
export type CustomRole = z.infer<typeof CustomRole>;

/** What a member shows of its custom role. */
export const customRoleRef = z.object({ id: z.string(), name: z.string() }).nullable().meta({
  description:
    "The custom role, if there is one; `role` is then the least built-in role that has all of its permissions",
});
