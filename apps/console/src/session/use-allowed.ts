"use client";

import { type Permission, permissionsOf, type Role } from "@millrace/domain";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { holdsAll } from "./holds-all.ts";

/** During a deployment, an API process from before custom roles can answer: without `permissions`. */
interface Grant {
  readonly role: Role;
  readonly permissions?: readonly Permission[] | undefined;
}

/** What the signed-in user may do; undefined until that is known. The API decides in any case. */
export function usePermissions(): readonly Permission[] | undefined {
  const trpc = useTRPC();
  const me: Grant | undefined = useQuery(trpc.account.me.queryOptions({})).data;
  return me && (me.permissions ?? [...permissionsOf(me.role)]);
}

/** Whether the signed-in user has `permission`: what is not granted is not offered. False until that is known. */
export function useAllowed(permission: Permission): boolean {
  return usePermissions()?.includes(permission) ?? false;
}

/** Whether it is known that the role does not grant `permission`: a page that needs it says so. */
export function useDenied(permission: Permission): boolean {
  return usePermissions()?.includes(permission) === false;
}

/** The signed-in user's role, or the one that their custom role narrows; undefined until that is known. */
export function useRole(): Role | undefined {
  const trpc = useTRPC();
  return useQuery(trpc.account.me.queryOptions({})).data?.role;
}

/**
 * Whether the signed-in user has `permission` and all permissions of another member, key or role: the API lets nobody change
 * or remove one with more permissions than their own. False until the user's permissions are known.
 */
export function useMayChange(permission: Permission): (other: Iterable<Permission>) => boolean {
  const held = usePermissions();
  return (other) => held?.includes(permission) === true && holdsAll(held, other);
}
