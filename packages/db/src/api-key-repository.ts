import {
  type ApiKey,
  type ApiKeyId,
  isRole,
  newId,
  type OrganizationId,
  ROLE_LEAST,
  type Role,
  type UserId,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import type { ApiKey as ApiKeyRow } from "./generated/client.ts";
import { olderThan, type Page, type PageRequest, pageOf } from "./page.ts";

export interface NewApiKey {
  readonly organizationId: OrganizationId;
  readonly name: string;
  readonly role: Role;
  readonly hint: string;
  /** SHA-256 of the secret, 32 bytes. */
  readonly secretHash: Uint8Array<ArrayBuffer>;
  readonly createdBy?: UserId | undefined;
  readonly expiresAt?: Date | undefined;
}

/** A key used again within this time is not written again: one row update per minute is enough. */
const LAST_USED_RESOLUTION_MS = 60_000;

export class ApiKeyRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  async create(key: NewApiKey): Promise<ApiKey> {
    const { createdBy, expiresAt, ...rest } = key;
    const row = await this.#client.apiKey.create({
      data: {
        id: newId("key"),
        ...rest,
        createdById: createdBy ?? null,
        expiresAt: expiresAt ?? null,
      },
    });
    return toApiKey(row);
  }

  /** The live key with this hash: neither revoked nor expired at `now`. Not bound to a tenant. */
  async findLive(secretHash: Uint8Array<ArrayBuffer>, now: Date): Promise<ApiKey | undefined> {
    const [row] = await this.#client.$queryRaw<ApiKeyRow[]>`
      SELECT id, organization_id AS "organizationId", name, role, hint, secret_hash AS "secretHash",
        created_by_id AS "createdById", created_at AS "createdAt", expires_at AS "expiresAt",
        last_used_at AS "lastUsedAt", revoked_at AS "revokedAt"
      FROM find_api_key(${secretHash})`;
    if (!row || row.revokedAt || (row.expiresAt && row.expiresAt <= now)) return undefined;
    return toApiKey(row);
  }

  /** Notes that the key was used at `now`. */
  async touch(id: ApiKeyId, now: Date): Promise<void> {
    const stale = new Date(now.getTime() - LAST_USED_RESOLUTION_MS);
    await this.#client.apiKey.updateMany({
      where: { id, OR: [{ lastUsedAt: null }, { lastUsedAt: { lt: stale } }] },
      data: { lastUsedAt: now },
    });
  }

  async get(organizationId: OrganizationId, id: ApiKeyId): Promise<ApiKey | undefined> {
    const row = await this.#client.apiKey.findFirst({ where: { id, organizationId } });
    return row ? toApiKey(row) : undefined;
  }

  /** Keys that are not revoked, newest first. */
  async list(organizationId: OrganizationId, page: PageRequest): Promise<Page<ApiKey>> {
    const rows = await this.#client.apiKey.findMany({
      where: { organizationId, revokedAt: null, ...olderThan(page.after) },
      orderBy: [{ createdAt: "desc" }, { id: "desc" }],
      take: page.limit + 1,
    });
    return pageOf(rows, page.limit, toApiKey);
  }

  /** False where the tenant has no such live key. */
  async revoke(organizationId: OrganizationId, id: ApiKeyId, now: Date): Promise<boolean> {
    const { count } = await this.#client.apiKey.updateMany({
      where: { id, organizationId, revokedAt: null },
      data: { revokedAt: now },
    });
    return count === 1;
  }
}

function toApiKey(row: ApiKeyRow): ApiKey {
  return {
    id: row.id as ApiKeyId,
    organizationId: row.organizationId as OrganizationId,
    name: row.name,
    // A role that this version does not know grants the least.
    role: isRole(row.role) ? row.role : ROLE_LEAST,
    hint: row.hint,
    createdBy: (row.createdById ?? undefined) as UserId | undefined,
    createdAt: row.createdAt,
    expiresAt: row.expiresAt ?? undefined,
    lastUsedAt: row.lastUsedAt ?? undefined,
    revokedAt: row.revokedAt ?? undefined,
  };
}
