import { Refused } from "./refused.ts";

const OPTION = "--secrets-version";

/**
 * The version that an installation's secrets are to have. Where none is asked for they stay as they
 * are: any other number, a lower one too, would give the database another password. `present` is
 * undefined for a new installation, which has no previous secret that the API could get.
 *
 * @throws Refused for a lower version, and for a new installation any but the first.
 */
export function secretsVersion(asked: number | undefined, present: number | undefined): number {
  if (asked === undefined) return present ?? 1;
  if (present === undefined && asked > 1) {
    throw new Refused(`${OPTION}: a new installation has version 1; leave the option out`);
  }
  if (present !== undefined && asked < present) {
    throw new Refused(
      `${OPTION}: the installation has version ${present}; give ${present + 1} to change its secrets, or leave the option out to keep them`,
    );
  }
  return asked;
}
