/**
 * Where transactions learn whose rows they see. Every statement of a repository runs in one of these
 * transactions: row-level security answers a query outside of them with no rows.
 */
import type { OrganizationId } from "@millrace/domain";
import type { Client } from "./client.ts";
import type { PrismaClient } from "./generated/client.ts";

/** Runs `work` in a transaction that `scope` has prepared. */
export type Scope = <T>(work: (inner: Client) => Promise<T>) => Promise<T>;

/** The rows of one organization. */
export function tenantScope(client: PrismaClient, organizationId: OrganizationId): Scope {
  return (work) =>
    client.$transaction(async (inner) => {
      // Until the transaction ends: the next user of the connection finds nothing set.
      await inner.$queryRaw`SELECT set_config('app.organization_id', ${organizationId}, true)`;
      return work(inner);
    });
}

/** What the worker looks for in every organization, by the rights of `millrace_fleet`. */
export function fleetScope(client: PrismaClient): Scope {
  return (work) =>
    client.$transaction(async (inner) => {
      await inner.$executeRaw`SET LOCAL ROLE millrace_fleet`;
      return work(inner);
    });
}

/** A repository whose methods each run in a transaction of their own. */
export function eachIn<R extends object>(scope: Scope, Repository: new (client: Client) => R): R {
  const methods = Object.getOwnPropertyNames(Repository.prototype).filter(
    (name) => name !== "constructor",
  );
  const entries = methods.map((name) => [
    name,
    (...parameters: unknown[]) =>
      scope((inner) => {
        const repository = new Repository(inner) as Record<string, (...p: unknown[]) => unknown>;
        return repository[name]?.(...parameters) as Promise<unknown>;
      }),
  ]);
  return Object.fromEntries(entries) as R;
}
