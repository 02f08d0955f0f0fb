import type { Member as MemberShape } from "@millrace/contract";
import type { Member } from "@millrace/domain";

export function presentMember(member: Member): MemberShape {
  return {
    id: member.id,
    user_id: member.userId,
    email: member.email,
    name: member.name,
    role: member.role,
    custom_role: member.customRole
      ? { id: member.customRole.id, name: member.customRole.name }
      : null,
    created_at: member.createdAt.toISOString(),
  };
}
