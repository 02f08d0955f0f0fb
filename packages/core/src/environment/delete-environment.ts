import { DomainError, type EnvironmentId, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { requireEnvironment } from "./require-environment.ts";

/** Throws `not_found`, `environment_not_empty` while it has clusters, kept data among them. */
export async function deleteEnvironment(
  core: Core,
  principal: Principal,
  id: EnvironmentId,
): Promise<void> {
  const environment = await requireEnvironment(core, principal, id);
  const deleted = await core.db.transaction((tx) =>
    tx.organizations.deleteEnvironment(environment.id),
  );
  if (deleted) return;
  throw new DomainError(
    "environment_not_empty",
    `Environment ${environment.name} has clusters, or data of deleted clusters.`,
    {
      remedy: "Delete its clusters first. A deleted cluster counts until its data is purged.",
    },
  );
}
