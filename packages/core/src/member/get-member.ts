import type { Member, MemberId, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { requireMember } from "./require-member.ts";

/** Throws `not_found`. */
export async function getMember(core: Core, principal: Principal, id: MemberId): Promise<Member> {
  return requireMember(core.db, principal, id);
}
