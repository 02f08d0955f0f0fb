import {
  type OrganizationId,
  SESSION_IDLE_HOURS_MAX,
  SESSIONS_LISTED_MAX,
  type SessionId,
  type UserId,
  type UserSession,
} from "@millrace/domain";
import type { Client } from "./client.ts";

/** Where one user is signed in. The identity library creates sessions; here they are seen and ended. */
export class SessionRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Notes that it was used at `now`. */
  async touch(id: SessionId, now: Date): Promise<void> {
    await this.#client.session.updateMany({ where: { id }, data: { updatedAt: now } });
  }

  /** Notes that its user proved their identity at `now`. */
  async confirm(id: SessionId, now: Date): Promise<void> {
    await this.#client.session.updateMany({ where: { id }, data: { authenticatedAt: now } });
  }

  /** What sessions of the user proved counts no longer, but for `kept`. */
  async forgetProofs(userId: UserId, kept: SessionId | undefined): Promise<void> {
    await this.#client.session.updateMany({
      where: { userId, ...(kept && { id: { not: kept } }) },
      data: { authenticatedAt: new Date(0) },
    });
  }

  /** Live ones, most recently used first; with `sso`, those by that organization's single sign-on alone. */
  async list(userId: UserId, now: Date, sso?: OrganizationId): Promise<UserSession[]> {
    const usedAfter = new Date(now.getTime() - SESSION_IDLE_HOURS_MAX * 3_600_000);
    const rows = await this.#client.session.findMany({
      where: { ...of(userId, sso), expiresAt: { gt: now }, updatedAt: { gt: usedAfter } },
      orderBy: [{ updatedAt: "desc" }, { id: "desc" }],
      take: SESSIONS_LISTED_MAX,
    });
    return rows.map((row) => ({
      id: row.id as SessionId,
      userAgent: row.userAgent ?? "",
      clientAddress: row.ipAddress ?? "",
      createdAt: row.createdAt,
      lastUsedAt: row.updatedAt,
      expiresAt: row.expiresAt,
    }));
  }

  /** False where the user has no such session. */
  async remove(userId: UserId, id: SessionId, sso?: OrganizationId): Promise<boolean> {
    const where = { id, ...of(userId, sso) };
    return (await this.#client.session.deleteMany({ where })).count === 1;
  }

  /** Every session of the user but this one. */
  async removeOthers(userId: UserId, kept: SessionId, sso?: OrganizationId): Promise<void> {
    const where = { ...of(userId, sso), id: { not: kept } };
    await this.#client.session.deleteMany({ where });
  }
}

function of(userId: UserId, sso: OrganizationId | undefined) {
  return { userId, ...(sso && { ssoOrganizationId: sso }) };
}
