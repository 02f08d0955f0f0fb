import type { TenantDatabase } from "@millrace/db";
import {
  DomainError,
  isId,
  type Member,
  type MemberId,
  notFound,
  type Principal,
} from "@millrace/domain";

type Members = Pick<TenantDatabase, "members">;

/** Throws `not_found`. */
export async function requireMember(
  { members }: Members,
  { organizationId }: Principal,
  id: MemberId,
): Promise<Member> {
  const member = isId("mem", id) ? await members.get(organizationId, id) : undefined;
  if (!member) throw notFound("member", id);
  return member;
}

/**
 * An organization without an owner could not be administered any more. Throws `last_owner`. The caller
 * holds the organization's lock, so that two owners do not leave at the same time.
 */
export async function assertNotLastOwner({ members }: Members, member: Member): Promise<void> {
  if (member.role !== "owner") return;
  if ((await members.count(member.organizationId, "owner")) > 1) return;
  throw new DomainError("last_owner", `${member.email} is the only owner of the organization.`, {
    remedy: "Make another member an owner first.",
  });
}
