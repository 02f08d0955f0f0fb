import { type ClusterUser, DomainError, type ScramMechanism } from "@millrace/domain";

/** The mechanism, if the user has it. Throws `validation_failed` at `pointer`. */
export function requireMechanism(
  { name, mechanisms }: ClusterUser,
  mechanism: ScramMechanism,
  pointer: string,
): ScramMechanism {
  if (mechanisms.includes(mechanism)) return mechanism;
  const message = `is not a mechanism of user ${name}, who has ${mechanisms.join(" and ")}`;
  throw new DomainError("validation_failed", `User ${name} has no credential for ${mechanism}.`, {
    remedy: "A credential that was removed comes back only with the user: delete and create it.",
    fields: [{ pointer, code: "unknown_mechanism", message }],
  });
}
