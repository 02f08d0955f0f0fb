import type { AttributeChange, ChangePlan, PlannedChange } from "@millrace/provisioner";

const KNOWN_LATER = "(known after apply)";

/**
 * Whether `plan` does nothing that `approved` does not: what is left of a plan after a part of it
 * was carried out is covered by its approval, anything new is not.
 */
export function isWithinApproval(plan: ChangePlan, approved: ChangePlan): boolean {
  const changes = new Map(approved.changes.map((change) => [change.address, change]));
  return plan.changes.every((change) => isCovered(change, changes.get(change.address)));
}

function isCovered(change: PlannedChange, approved: PlannedChange | undefined): boolean {
  if (change.action === "read") return true;
  if (approved === undefined || approved.type !== change.type) return false;
  const given = new Set(approved.attributes.map(({ name, after }) => pair(name, after)));
  const taken = new Set(approved.attributes.filter(takesAway).map(removal));
  const takesWhatWasSeen = change.attributes
    .filter(takesAway)
    .every((attribute) => taken.has(removal(attribute)));
  // What a run made in its last instant is taken on record instead of being made again. What stands
  // beside it nobody saw.
  if (change.action === "import") return approved.action === "create" && takesWhatWasSeen;
  if (change.action !== approved.action) return false;
  if (change.action === "delete") return true;
  const gives = change.attributes.filter((attribute) => !takesAway(attribute));
  const givesWhatWasSeen = gives.every(
    ({ name, after }) => given.has(pair(name, after)) || given.has(pair(name, KNOWN_LATER)),
  );
  return takesWhatWasSeen && givesWhatWasSeen;
}

/** Whether something goes: what it is says `before`. A rule added by hand reads so where a plan revokes it. */
function takesAway({ before, after }: AttributeChange): boolean {
  return before !== null && after === null;
}

function removal({ name, before }: AttributeChange): string {
  return pair(name, before);
}

function pair(name: string, value: string | null): string {
  return JSON.stringify([name, value]);
}
