import {
  ACCESS_REVIEW_KEYS_MAX,
  type Access,
  type AccessReview,
  type AccessReviewCounts,
  type ApiKeyId,
  type Changer,
  completeCounts,
  type InvitationId,
  isPermission,
  type MemberId,
  newId,
  type OrganizationId,
  PASSWORD_PROVIDER,
  type ServiceAccountId,
  type SignInMethod,
  type SsoConnection,
  storedRole,
} from "@millrace/domain";
import { liveKeys } from "./api-key-repository.ts";
import type { Client } from "./client.ts";
import { grantIn, HELD_CUSTOM_ROLE } from "./custom-role-repository.ts";
import type { AccessReview as AccessReviewRow } from "./generated/client.ts";
import { pendingAt } from "./invitation-repository.ts";
import { SsoConnectionRepository } from "./sso-connection-repository.ts";

const NONE = {
  ...{ customRole: undefined, permissions: undefined, lastUsedAt: undefined, expiresAt: undefined },
  ...{ hasSecondFactor: undefined, signIn: [], isDisabled: false, domains: [] },
} as const;

interface OrganizationAccess {
  readonly access: readonly Access[];
  /** False where there are more API keys than a review has. */
  readonly isComplete: boolean;
}

/** Who and what has access to a tenant, and when that was reviewed. */
export class AccessReviewRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /**
   * Every way in at `now`: members, service accounts, live API keys, pending invitations, single sign-on. Of too many
   * keys, those that were never used or not for longest.
   */
  async access(organizationId: OrganizationId, now: Date): Promise<OrganizationAccess> {
    const sso = (await new SsoConnectionRepository(this.#client).find(organizationId))?.connection;
    const members = await this.#members(organizationId, sso);
    const accounts = await this.#serviceAccounts(organizationId);
    const keys = await this.#apiKeys(organizationId, now);
    const invitations = await this.#invitations(organizationId, now);
    return {
      access: [
        ...[...members, ...accounts, ...keys.slice(0, ACCESS_REVIEW_KEYS_MAX), ...invitations],
        ...(sso ? [singleSignOn(sso)] : []),
      ],
      isComplete: keys.length <= ACCESS_REVIEW_KEYS_MAX,
    };
  }

  /** Of everything that there was: an incomplete review is not recorded. */
  async create(
    organizationId: OrganizationId,
    reviewedBy: Changer,
    { counts, digest }: { readonly counts: AccessReviewCounts; readonly digest: string },
  ): Promise<AccessReview> {
    const data = {
      ...{ organizationId, reviewedBy: { ...reviewedBy }, counts: { ...counts }, digest },
      complete: true,
    };
    return toReview(
      await this.#client.accessReview.create({ data: { id: newId("rev"), ...data } }),
    );
  }

  async get(
    organizationId: OrganizationId,
    id: AccessReview["id"],
  ): Promise<AccessReview | undefined> {
    const row = await this.#client.accessReview.findFirst({ where: { id, organizationId } });
    return row ? toReview(row) : undefined;
  }

  async newest(organizationId: OrganizationId): Promise<AccessReview | undefined> {
    const row = await this.#client.accessReview.findFirst({
      where: { organizationId },
      orderBy: [{ createdAt: "desc" }, { id: "desc" }],
    });
    return row ? toReview(row) : undefined;
  }

  async #members(organizationId: OrganizationId, sso?: SsoConnection): Promise<Access[]> {
    // Accounts at the providers of other tenants are none of this one's.
    const providerId = { in: [PASSWORD_PROVIDER, ...(sso ? [sso.id] : [])] };
    const rows = await this.#client.member.findMany({
      where: { organizationId },
      orderBy: [{ createdAt: "asc" }, { id: "asc" }],
      include: {
        customRole: HELD_CUSTOM_ROLE,
        user: {
          select: {
            ...{ email: true, twoFactorEnabled: true },
            accounts: { where: { providerId }, select: { providerId: true } },
          },
        },
      },
    });
    return rows.map(({ user, ...row }) => {
      const grant = grantIn(row.role, row.customRole);
      const providers = new Set(user.accounts.map((account) => account.providerId));
      const opensWithPassword = !sso?.required || grant.role === "owner";
      const signIn: SignInMethod[] = [
        ...(providers.has(PASSWORD_PROVIDER) && opensWithPassword ? ["password" as const] : []),
        ...(sso && providers.has(sso.id) ? ["single_sign_on" as const] : []),
      ];
      return {
        ...{ ...NONE, kind: "member", id: row.id as MemberId, name: user.email, ...grant },
        permissions: grant.customRole?.permissions,
        ...{ createdAt: row.createdAt, lastUsedAt: row.lastUsedAt ?? undefined },
        ...{ hasSecondFactor: user.twoFactorEnabled, signIn },
      };
    });
  }

  async #serviceAccounts(organizationId: OrganizationId): Promise<Access[]> {
    const rows = await this.#client.serviceAccount.findMany({
      where: { organizationId, deletedAt: null },
      orderBy: [{ createdAt: "asc" }, { id: "asc" }],
    });
    const uses = await this.#client.apiKey.groupBy({
      by: ["serviceAccountId"],
      where: { organizationId, serviceAccountId: { not: null } },
      _max: { lastUsedAt: true },
    });
    const lastUses = new Map(uses.map((use) => [use.serviceAccountId, use._max.lastUsedAt]));
    return rows.map((row) => ({
      ...{ ...NONE, kind: "service_account", id: row.id as ServiceAccountId, name: row.name },
      ...{ role: storedRole(row.role), createdAt: row.createdAt },
      lastUsedAt: lastUses.get(row.id) ?? undefined,
      isDisabled: row.disabledAt !== null,
    }));
  }

  /** Never used, or unused for longest, first; one more than a review has, where there are more. */
  async #apiKeys(organizationId: OrganizationId, now: Date): Promise<Access[]> {
    const rows = await this.#client.apiKey.findMany({
      where: { organizationId, ...liveKeys(now) },
      include: { serviceAccount: { select: { name: true, role: true, disabledAt: true } } },
      orderBy: [
        { lastUsedAt: { sort: "asc", nulls: "first" } },
        { createdAt: "asc" },
        { id: "asc" },
      ],
      take: ACCESS_REVIEW_KEYS_MAX + 1,
    });
    return rows.map(({ serviceAccount: account, ...row }) => ({
      ...{ ...NONE, kind: "api_key", id: row.id as ApiKeyId, createdAt: row.createdAt },
      name: account ? `${account.name}/${row.name}` : row.name,
      role: storedRole(account?.role ?? row.role),
      permissions: row.permissions.length > 0 ? row.permissions.filter(isPermission) : undefined,
      ...{ lastUsedAt: row.lastUsedAt ?? undefined, expiresAt: row.expiresAt ?? undefined },
      isDisabled: account?.disabledAt != null,
    }));
  }

  async #invitations(organizationId: OrganizationId, now: Date): Promise<Access[]> {
    const rows = await this.#client.invitation.findMany({
      where: pendingAt(organizationId, now),
      orderBy: [{ createdAt: "asc" }, { id: "asc" }],
    });
    return rows.map((row) => ({
      ...{ ...NONE, kind: "invitation", id: row.id as InvitationId, name: row.email },
      ...{ role: storedRole(row.role), createdAt: row.createdAt, expiresAt: row.expiresAt },
    }));
  }
}

function singleSignOn({ id, issuer, defaultRole, domains, createdAt }: SsoConnection): Access {
  return {
    ...{ ...NONE, kind: "single_sign_on", id, name: issuer, role: defaultRole },
    ...{ domains, createdAt },
  };
}

function toReview(row: AccessReviewRow): AccessReview {
  return {
    id: row.id as AccessReview["id"],
    reviewedBy: row.reviewedBy as unknown as Changer,
    reviewedAt: row.createdAt,
    counts: completeCounts(row.counts as unknown as AccessReviewCounts),
    digest: row.digest ?? undefined,
    isComplete: row.complete,
  };
}
