import { DomainError, type Environment, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { nameTaken, withExistingId } from "./environment-name.ts";

/** Environments of one tenant: each has at least one cluster, or is on its way to one. */
export const ENVIRONMENTS_PER_ORGANIZATION_MAX = 100;

/** Throws `environment_name_taken`, with the id of the one that has the name; `limit_exceeded`. */
export async function createEnvironment(
  core: Core,
  principal: Principal,
  { name }: { readonly name: string },
): Promise<Environment> {
  const { organizationId } = principal;
  try {
    return await core.db.transaction(async (tx) => {
      await tx.organizations.lock(organizationId);
      const count = await tx.organizations.countEnvironments(organizationId);
      if (count >= ENVIRONMENTS_PER_ORGANIZATION_MAX) throw tooMany();
      const environment = await tx.organizations.createEnvironment(organizationId, name);
      if (!environment) throw nameTaken(name, undefined);
      return environment;
    });
  } catch (error) {
    throw await withExistingId(core, principal, name, error);
  }
}

function tooMany(): DomainError {
  return new DomainError(
    "limit_exceeded",
    `An organization has at most ${ENVIRONMENTS_PER_ORGANIZATION_MAX} environments.`,
    { remedy: "Delete an environment that is no longer needed." },
  );
}
