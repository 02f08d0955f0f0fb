import type { ServiceAccount as ServiceAccountShape } from "@millrace/contract";
import type { ServiceAccount } from "@millrace/domain";

export function presentServiceAccount(account: ServiceAccount): ServiceAccountShape {
  return {
    id: account.id,
    name: account.name,
    description: account.description,
    role: account.role,
    disabled: account.disabledAt !== undefined,
    created_at: account.createdAt.toISOString(),
  };
}
