import { DomainError, type Environment, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";

/** The refusal of a name that another environment of the tenant has. */
export function nameTaken(name: string, existing: Environment | undefined): DomainError {
  return new DomainError(
    "environment_name_taken",
    `An environment named "${name}" already exists.`,
    {
      remedy: "Choose another name, or use the existing environment.",
      fields: [{ pointer: "/name", code: "taken", message: "is used by another environment" }],
      ...(existing && { existingId: existing.id }),
    },
  );
}

/** Adds the id of the environment that has the name, which the failed transaction could not read. */
export async function withExistingId(
  { db }: Core,
  { organizationId }: Principal,
  name: string,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof DomainError) || error.code !== "environment_name_taken") return error;
  return nameTaken(name, await db.organizations.findEnvironment(organizationId, name));
}
