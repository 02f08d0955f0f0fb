import {
  type ApiKey,
  DomainError,
  type Impersonation,
  type Organization,
  type Principal,
  type Role,
  type ServiceAccount,
  ssoScope,
  type User,
} from "@millrace/domain";
import type { Core } from "../core.ts";

export interface AccountView {
  readonly user: User | undefined;
  readonly apiKey: ApiKey | undefined;
  readonly serviceAccount: ServiceAccount | undefined;
  readonly organization: Organization;
  readonly role: Role;
  readonly impersonation: Impersonation | undefined;
  readonly organizations: readonly { organization: Organization; role: Role }[];
}

/** Who sends the request, and for which tenant. */
export async function getAccount(core: Core, principal: Principal): Promise<AccountView> {
  const { organizationId, userId, apiKeyId, serviceAccountId, role } = principal;
  const [user, apiKey, serviceAccount, organization, memberships] = await Promise.all([
    userId && core.db.organizations.getUser(userId),
    apiKeyId && core.db.apiKeys.get(organizationId, apiKeyId),
    serviceAccountId && core.db.serviceAccounts.get(organizationId, serviceAccountId),
    core.db.organizations.get(organizationId),
    userId ? core.db.organizations.membershipsOf(userId) : [],
  ]);
  if (!organization) throw new DomainError("unauthenticated", "The organization no longer exists.");
  const organizations =
    memberships.length > 0 && ssoScope(principal) === undefined
      ? memberships.map((member) => ({ organization: member.organization, role: member.role }))
      : [{ organization, role }];
  const { impersonation } = principal;
  return { user, apiKey, serviceAccount, organization, role, impersonation, organizations };
}
