import type { ClusterUser as ClusterUserShape } from "@millrace/contract";
import type { ClusterUser } from "@millrace/domain";

export function presentUser({ name, mechanisms }: ClusterUser): ClusterUserShape {
  return { name, principal: `User:${name}`, mechanisms: [...mechanisms] };
}
