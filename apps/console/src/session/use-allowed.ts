"use client";

import type { Permission, Role } from "@millrace/domain";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";

/**
 * Whether the signed-in user has `permission`: what is not granted is not offered. False
 * until that is known; the API decides in any case.
 */
export function useAllowed(permission: Permission): boolean {
  const trpc = useTRPC();
  const { data } = useQuery(trpc.account.me.queryOptions({}));
  return data?.permissions.includes(permission) ?? false;
}

/** Whether it is known that the role does not grant `permission`: a page that needs it says so. */
export function useDenied(permission: Permission): boolean {
  const trpc = useTRPC();
  const { data } = useQuery(trpc.account.me.queryOptions({}));
  return data !== undefined && !data.permissions.includes(permission);
}

/** The role of whoever is signed in; undefined until it is known. */
export function useRole(): Role | undefined {
  const trpc = useTRPC();
  return useQuery(trpc.account.me.queryOptions({})).data?.role;
}
