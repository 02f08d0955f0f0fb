"use client";

import { type Permission, permissionsOf, type Role } from "@millrace/domain";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { holdsAll } from "./holds-all.ts";

/** What an API process from before custom roles answers lacks `permissions`: a deployment can have both. */
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

/** The role of whoever is signed in, or the one that their custom role narrows; undefined until it is known. */
export function useRole(): Role | undefined {
  const trpc = useTRPC();
  return useQuery(trpc.account.me.queryOptions({})).data?.role;
}

/**
 * Tells whether the signed-in user has `permission` and everything that somebody or something else may do: the API
 * lets nobody change or remove what may do more than they. False until the user's permissions are known.
 */
export function useMayChange(permission: Permission): (other: Iterable<Permission>) => boolean {
  const held = usePermissions();
  return (other) => held?.includes(permission) === true && holdsAll(held, other);
}
