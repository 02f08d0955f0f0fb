import {
  DomainError,
  type Environment,
  type EnvironmentId,
  type Principal,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { requireEnvironment } from "./require-environment.ts";

/** Throws `not_found`, `environment_not_empty` while it has clusters, kept data among them. */
export async function deleteEnvironment(
  core: Core,
  principal: Principal,
  id: EnvironmentId,
): Promise<void> {
  const environment = await requireEnvironment(core, principal, id);
  await core.db.transaction(async (tx) => {
    if (!(await tx.organizations.deleteEnvironment(environment.id))) throw notEmpty(environment);
  });
}

function notEmpty(environment: Environment): DomainError {
  return new DomainError(
    "environment_not_empty",
    `Environment ${environment.name} has clusters, or data of deleted clusters.`,
    {
      remedy: "Delete its clusters first. A deleted cluster counts until its data is purged.",
    },
  );
}
