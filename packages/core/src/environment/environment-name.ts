import { DomainError, type Environment } from "@millrace/domain";

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
