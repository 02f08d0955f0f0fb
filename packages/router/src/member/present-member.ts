import type { Member as MemberShape } from "@millrace/contract";
import type { Member } from "@millrace/domain";
import { presentRoleRef } from "../role/present-role.ts";

export function presentMember(member: Member): MemberShape {
  return {
    id: member.id,
    user_id: member.userId,
    email: member.email,
    name: member.name,
    role: member.role,
    custom_role: presentRoleRef(member.customRole),
    created_at: member.createdAt.toISOString(),
  };
}
