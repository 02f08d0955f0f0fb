"use client";

import { allows, type Permission } from "@millrace/domain";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";

/**
 * Whether the signed-in user's role grants `permission`: what is not granted is not offered. False
 * until that is known; the API decides in any case.
 */
export function useAllowed(permission: Permission): boolean {
  const trpc = useTRPC();
  const { data: me } = useQuery(trpc.account.me.queryOptions({}));
  return me !== undefined && allows(me.role, permission);
}
