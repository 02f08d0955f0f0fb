import {
  type CustomRoleId,
  MEMBER_USE_RESOLUTION_MS,
  type Member,
  type MemberId,
  type OrganizationId,
  type Role,
  type UserId,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import { grantIn, HELD_CUSTOM_ROLE } from "./custom-role-repository.ts";
import type { Member as MemberRow } from "./generated/client.ts";
import { newerThan, type Page, type PageRequest, pageOf } from "./page.ts";

const WITH_USER = {
  user: { select: { email: true, name: true } },
  customRole: HELD_CUSTOM_ROLE,
} as const;

/** Who belongs to a tenant. */
export class MemberRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Oldest first. */
  async list(organizationId: OrganizationId, page: PageRequest): Promise<Page<Member>> {
    const rows = await this.#client.member.findMany({
      where: { organizationId, ...newerThan(page.after) },
      orderBy: [{ createdAt: "asc" }, { id: "asc" }],
      take: page.limit + 1,
      include: WITH_USER,
    });
    return pageOf(rows, page.limit, toMember);
  }

  async get(organizationId: OrganizationId, id: MemberId): Promise<Member | undefined> {
    const where = { id, organizationId };
    const row = await this.#client.member.findFirst({ where, include: WITH_USER });
    return row ? toMember(row) : undefined;
  }

  async ofUser(organizationId: OrganizationId, userId: UserId): Promise<Member | undefined> {
    const where = { userId, organizationId };
    const row = await this.#client.member.findFirst({ where, include: WITH_USER });
    return row ? toMember(row) : undefined;
  }

  /** Of that role, or of any. */
  async count(organizationId: OrganizationId, role?: Role): Promise<number> {
    return this.#client.member.count({ where: { organizationId, ...(role && { role }) } });
  }

  /** With a custom role, `role` is the least: nobody with one counts as an owner. */
  async setRole(
    organizationId: OrganizationId,
    id: MemberId,
    role: Role,
    customRoleId?: CustomRoleId,
  ): Promise<void> {
    const data = { role, customRoleId: customRoleId ?? null };
    await this.#client.member.updateMany({ where: { id, organizationId }, data });
  }

  /** Notes that the member was here at `now`. */
  async touch(organizationId: OrganizationId, userId: UserId, now: Date): Promise<void> {
    const stale = new Date(now.getTime() - MEMBER_USE_RESOLUTION_MS);
    await this.#client.member.updateMany({
      where: { organizationId, userId, OR: [{ lastUsedAt: null }, { lastUsedAt: { lt: stale } }] },
      data: { lastUsedAt: now },
    });
  }

  async remove(organizationId: OrganizationId, id: MemberId): Promise<void> {
    await this.#client.member.deleteMany({ where: { id, organizationId } });
  }
}

type Joined = MemberRow & {
  readonly user: { readonly email: string; readonly name: string };
  readonly customRole: Parameters<typeof grantIn>[1];
};

function toMember(row: Joined): Member {
  return {
    id: row.id as MemberId,
    organizationId: row.organizationId as OrganizationId,
    userId: row.userId as UserId,
    ...grantIn(row.role, row.customRole),
    email: row.user.email,
    name: row.user.name,
    createdAt: row.createdAt,
  };
}
