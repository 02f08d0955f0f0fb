import {
  type Environment,
  type EnvironmentId,
  isId,
  notFound,
  type Principal,
} from "@millrace/domain";
import type { Core } from "../core.ts";

/** The tenant's environment, or `not_found` as for an id that does not exist. */
export async function requireEnvironment(
  core: Pick<Core, "db">,
  principal: Principal,
  id: EnvironmentId,
): Promise<Environment> {
  const environment = isId("env", id)
    ? await core.db.organizations.getEnvironment(principal.organizationId, id)
    : undefined;
  if (!environment) throw notFound("environment", id);
  return environment;
}
