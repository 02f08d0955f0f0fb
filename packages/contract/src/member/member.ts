import { ROLES } from "@millrace/domain";
import { z } from "zod";
import { timestamp } from "../field.ts";
import { customRoleRef } from "../role/role.ts";

export const Member = z
  .object({
    id: z.string(),
    user_id: z.string(),
    email: z.string(),
    name: z.string(),
    role: z.enum(ROLES),
    custom_role: customRoleRef,
    created_at: timestamp.meta({ description: "When the user became a member: RFC 3339, UTC" }),
  })
  .meta({ id: "Member" });
export type Member = z.infer<typeof Member>;
