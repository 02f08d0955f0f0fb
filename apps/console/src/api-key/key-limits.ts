/** What narrows an API key, as forms and lists show it. Pure, so that it is tested alone. */
import type { ApiKey } from "@millrace/contract";

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

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}
