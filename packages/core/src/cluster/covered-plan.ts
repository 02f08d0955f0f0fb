import type { ChangePlan, PlannedChange } from "@millrace/provisioner";

const KNOWN_LATER = "(known after apply)";

/**
 * Whether `plan` does nothing that `approved` does not: what is left of a plan after a part of it
 * was carried out is covered by its approval, anything new is not.
 */
export function isCoveredBy(plan: ChangePlan, approved: ChangePlan): boolean {
  const changes = new Map(approved.changes.map((change) => [change.address, change]));
  return plan.changes.every((change) => isCovered(change, changes.get(change.address)));
}

function isCovered(change: PlannedChange, approved: PlannedChange | undefined): boolean {
  if (change.action === "read") return true;
  if (approved === undefined || approved.type !== change.type) return false;
  // What a run made in its last instant is taken on record instead of being made again.
  if (change.action === "import") return approved.action === "create";
  if (change.action !== approved.action) return false;
  if (change.action === "delete") return true;
  const after = new Map(approved.attributes.map((attribute) => [attribute.name, attribute.after]));
  return change.attributes.every(({ name, after: value }) => {
    const agreed = after.get(name);
    return agreed === KNOWN_LATER || agreed === value;
  });
}
