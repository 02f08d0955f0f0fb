import {
  type ApiKey,
  type ApiKeyId,
  isPermission,
  KEY_USE_RESOLUTION_MS,
  newId,
  type OrganizationId,
  type Permission,
  type Role,
  type ServiceAccountId,
  storedRole,
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
  readonly serviceAccountId?: ServiceAccountId | undefined;
  readonly expiresAt?: Date | undefined;
  /** Permissions of the role that it has; empty or absent: all of them. */
  readonly permissions?: readonly Permission[];
  /** Empty or absent: any. */
  readonly allowedAddresses?: readonly string[];
}

const WITH_ACCOUNT = { serviceAccount: { select: { role: true } } } as const;

export class ApiKeyRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  async create(key: NewApiKey): Promise<ApiKey> {
    const { createdBy, serviceAccountId, expiresAt, ...given } = key;
    const { permissions = [], allowedAddresses = [], ...rest } = given;
    const row = await this.#client.apiKey.create({
      data: {
        id: newId("key"),
        ...rest,
        createdById: createdBy ?? null,
        serviceAccountId: serviceAccountId ?? null,
        expiresAt: expiresAt ?? null,
        permissions: [...permissions],
        allowedAddresses: [...allowedAddresses],
      },
      include: WITH_ACCOUNT,
    });
    return toApiKey(row);
  }

  /**
   * The key with this hash, live or not. Not bound to a tenant. Whether its service account is live, and which
   * role that has, is for the caller to look up.
   */
  async findBySecret(secretHash: Uint8Array<ArrayBuffer>): Promise<ApiKey | undefined> {
    const [row] = await this.#client.$queryRaw<ApiKeyRow[]>`
      SELECT id, organization_id AS "organizationId", name, role, hint, secret_hash AS "secretHash",
        created_by_id AS "createdById", created_at AS "createdAt", expires_at AS "expiresAt",
        last_used_at AS "lastUsedAt", revoked_at AS "revokedAt", permissions,
        allowed_addresses AS "allowedAddresses", previous_secret_hash AS "previousSecretHash",
        previous_valid_until AS "previousValidUntil", service_account_id AS "serviceAccountId"
      FROM find_api_key(${secretHash})`;
    return row && toApiKey(row);
  }

  /** Notes that the key was used at `now`. */
  async touch(id: ApiKeyId, now: Date): Promise<void> {
    const stale = new Date(now.getTime() - KEY_USE_RESOLUTION_MS);
    await this.#client.apiKey.updateMany({
      where: { id, OR: [{ lastUsedAt: null }, { lastUsedAt: { lt: stale } }] },
      data: { lastUsedAt: now },
    });
  }

  async get(organizationId: OrganizationId, id: ApiKeyId): Promise<ApiKey | undefined> {
    const where = { id, organizationId };
    const row = await this.#client.apiKey.findFirst({ where, include: WITH_ACCOUNT });
    return row ? toApiKey(row) : undefined;
  }

  /** Keys that are not revoked, of the service account or of all, newest first. */
  async list(
    organizationId: OrganizationId,
    serviceAccountId: ServiceAccountId | undefined,
    page: PageRequest,
  ): Promise<Page<ApiKey>> {
    const of = serviceAccountId && { serviceAccountId };
    const rows = await this.#client.apiKey.findMany({
      where: { organizationId, ...of, revokedAt: null, ...olderThan(page.after) },
      include: WITH_ACCOUNT,
      orderBy: [{ createdAt: "desc" }, { id: "desc" }],
      take: page.limit + 1,
    });
    return pageOf(rows, page.limit, toApiKey);
  }

  /** Live keys of the service account at `now`. */
  async countOf(serviceAccountId: ServiceAccountId, now: Date): Promise<number> {
    return this.#client.apiKey.count({ where: { serviceAccountId, ...liveKeys(now) } });
  }

  /** Live keys at `now` that belong to no service account. */
  async countOwn(organizationId: OrganizationId, now: Date): Promise<number> {
    const where = { organizationId, serviceAccountId: null, ...liveKeys(now) };
    return this.#client.apiKey.count({ where });
  }

  /**
   * Replaces the secret of a live key; the one that it had works until `previousValidUntil`, or no longer.
   * Undefined where the tenant has no such live key.
   */
  async rotate(
    organizationId: OrganizationId,
    id: ApiKeyId,
    next: Pick<NewApiKey, "secretHash" | "hint"> & { previousValidUntil: Date | undefined },
  ): Promise<ApiKey | undefined> {
    const { secretHash, hint, previousValidUntil = null } = next;
    await this.#client.$executeRaw`
      UPDATE api_key SET secret_hash = ${secretHash}, hint = ${hint},
        previous_secret_hash = CASE WHEN ${previousValidUntil}::timestamptz IS NULL THEN NULL ELSE secret_hash END,
        previous_valid_until = ${previousValidUntil}::timestamptz
      WHERE id = ${id} AND organization_id = ${organizationId} AND revoked_at IS NULL`;
    const key = await this.get(organizationId, id);
    return key?.revokedAt ? undefined : key;
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

/** Keys that are neither revoked nor expired at `now`. */
export function liveKeys(now: Date) {
  return { revokedAt: null, OR: [{ expiresAt: null }, { expiresAt: { gt: now } }] };
}

function toApiKey(row: ApiKeyRow & { serviceAccount?: { role: string } | null }): ApiKey {
  const role = row.serviceAccount?.role ?? row.role;
  return {
    id: row.id as ApiKeyId,
    organizationId: row.organizationId as OrganizationId,
    name: row.name,
    role: storedRole(role),
    serviceAccountId: (row.serviceAccountId ?? undefined) as ServiceAccountId | undefined,
    hint: row.hint,
    createdBy: (row.createdById ?? undefined) as UserId | undefined,
    createdAt: row.createdAt,
    expiresAt: row.expiresAt ?? undefined,
    lastUsedAt: row.lastUsedAt ?? undefined,
    revokedAt: row.revokedAt ?? undefined,
    // One that this version does not know grants nothing.
    permissions: row.permissions.length > 0 ? row.permissions.filter(isPermission) : undefined,
    allowedAddresses: row.allowedAddresses,
    previousValidUntil: row.previousValidUntil ?? undefined,
  };
}
