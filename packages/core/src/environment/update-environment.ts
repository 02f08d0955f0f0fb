import type { Environment, EnvironmentId, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { nameTaken, withExistingId } from "./environment-name.ts";
import { requireEnvironment } from "./require-environment.ts";

export interface UpdateEnvironmentInput {
  readonly environmentId: EnvironmentId;
  readonly name?: string | undefined;
}

/** Renames an environment. Throws `not_found`, `environment_name_taken`. */
export async function updateEnvironment(
  core: Core,
  principal: Principal,
  { environmentId, name }: UpdateEnvironmentInput,
): Promise<Environment> {
  const found = await requireEnvironment(core, principal, environmentId);
  if (name === undefined || name === found.name) return found;
  try {
    return await core.db.transaction(async (tx) => {
      const renamed = await tx.organizations.renameEnvironment(found.id, name);
      if (!renamed) throw nameTaken(name, undefined);
      return renamed;
    });
  } catch (error) {
    throw await withExistingId(core, principal, name, error);
  }
}
