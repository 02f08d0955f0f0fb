import { DomainError, type Environment } from "@millrace/domain";

/** The refusal of a name that another environment of the tenant has. */
export function nameTaken(name: string, existing: Environment | undefined): DomainError {
  return new DomainError("environment_name_taken", `There is an environment ${name} already.`, {
    remedy: "Choose another name, or use the environment that has it.",
    fields: [{ pointer: "/name", code: "taken", message: "is taken in this organization" }],
    ...(existing && { existingId: existing.id }),
  });
}
