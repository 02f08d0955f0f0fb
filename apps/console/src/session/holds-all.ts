import type { Permission } from "@millrace/domain";

/** Whether somebody who has `held` may do everything that `other` names. */
export function holdsAll(held: readonly Permission[], other: Iterable<Permission>): boolean {
  return [...other].every((each) => held.includes(each));
}
