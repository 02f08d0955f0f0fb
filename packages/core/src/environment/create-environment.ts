import { DomainError, type Environment, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { nameTaken } from "./environment-name.ts";

/** Environments of one tenant: each has at least one cluster, or is on its way to one. */
export const ENVIRONMENTS_PER_ORGANIZATION_MAX = 100;

/** Throws `environment_name_taken`, with the id of the one that has the name; `limit_exceeded`. */
export async function createEnvironment(
  core: Core,
  principal: Principal,
  { name }: { readonly name: string },
): Promise<Environment> {
  const { organizationId } = principal;
  const { organizations } = core.db;
  const environment = await core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const count = await tx.organizations.countEnvironments(organizationId);
    if (count < ENVIRONMENTS_PER_ORGANIZATION_MAX) {
      return tx.organizations.createEnvironment(organizationId, name);
    }
    throw new DomainError(
      "limit_exceeded",
      `An organization has at most ${ENVIRONMENTS_PER_ORGANIZATION_MAX} environments.`,
      { remedy: "Delete an environment that is no longer needed." },
    );
  });
  if (environment) return environment;
  throw nameTaken(name, await organizations.findEnvironment(organizationId, name));
}
