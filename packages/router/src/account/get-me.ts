import { getMe as contract } from "@millrace/contract";
import { getAccount } from "@millrace/core";
import { mayDo, PERMISSIONS } from "@millrace/domain";
import { procedure } from "../procedure.ts";
import { presentRoleRef } from "../role/present-role.ts";

export const getMeProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx }) => {
    const account = await getAccount(ctx.core, ctx.principal);
    const { user, apiKey, serviceAccount, organization, impersonation } = account;
    return {
      user: user ? { id: user.id, email: user.email, name: user.name } : null,
      api_key: apiKey ? { id: apiKey.id, name: apiKey.name } : null,
      service_account: serviceAccount ? { id: serviceAccount.id, name: serviceAccount.name } : null,
      organization: { id: organization.id, name: organization.name, slug: organization.slug },
      role: account.role,
      custom_role: presentRoleRef(ctx.principal.customRole),
      permissions: PERMISSIONS.filter((permission) => mayDo(ctx.principal, permission)),
      impersonation: impersonation
        ? {
            operator: impersonation.operator.email,
            reason: impersonation.reason,
            write: impersonation.mayWrite,
            expires_at: impersonation.expiresAt.toISOString(),
          }
        : null,
      organizations: account.organizations.map((each) => ({
        id: each.organization.id,
        name: each.organization.name,
        role: each.role,
      })),
    };
  });
