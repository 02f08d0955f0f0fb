/** What narrows an API key, as forms and lists show it. Pure, so that it is tested alone. */
import type { ApiKey } from "@millrace/contract";
import { allows, PERMISSIONS, type Permission, permissionsOf, type Role } from "@millrace/domain";
import { holdsAll } from "../session/holds-all.ts";

/** Addresses and CIDR blocks that somebody typed, separated by commas, spaces or lines. */
export function addressesIn(text: string): string[] {
  return text.split(/[\s,]+/).filter((each) => each !== "");
}

/** Such as "2 permissions, from 10.0.0.0/8"; empty where nothing narrows the key. */
export function limitsOf(key: Pick<ApiKey, "permissions" | "allowed_addresses">): string {
  const { permissions, allowed_addresses: addresses } = key;
  const parts = [
    ...(permissions ? [count(permissions.length, "permission")] : []),
    ...(addresses.length === 1 ? [`from ${addresses[0]}`] : []),
    ...(addresses.length > 1 ? [`from ${count(addresses.length, "address range")}`] : []),
  ];
  return parts.join(", ");
}

/** What the key may do: of a service account whose role was lowered, less than the key's own permissions. */
export function permissionsOfKey(key: Pick<ApiKey, "role" | "permissions">): Permission[] {
  const { role, permissions } = key;
  return [...(permissions ?? permissionsOf(role))].filter((each) => allows(role, each));
}

/** Permissions that a user who has `held` can give a key of this role. */
export function permissionsToGive(role: Role, held: readonly Permission[]): Permission[] {
  return PERMISSIONS.filter((each) => allows(role, each) && held.includes(each));
}

/** What to ask for where the user chose these: without a choice all of the role, or as much of it as the user has. */
export function permissionsToAsk(
  role: Role,
  held: readonly Permission[],
  chosen: Permission[],
): Permission[] | undefined {
  if (chosen.length > 0) return chosen;
  return holdsAll(held, permissionsOf(role)) ? undefined : permissionsToGive(role, held);
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}
