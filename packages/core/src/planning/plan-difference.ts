import {
  type AttributeChange,
  type ChangePlan,
  changePlan,
  type PlannedChange,
} from "@millrace/provisioner";

/**
 * What leads from one stack to another, told from plans that would make each from nothing: so a
 * change is shown without an account, and without what exists being looked at. Resources of the same
 * address are the same; what a change of theirs takes is not known here, and shown as an update.
 */
export function planDifference(before: ChangePlan, after: ChangePlan): ChangePlan {
  const old = byAddress(before);
  const made = byAddress(after);
  const changes: PlannedChange[] = [];
  for (const change of after.changes) {
    const was = old.get(change.address);
    if (was === undefined) changes.push(change);
    else changes.push(...updated(was, change));
  }
  for (const change of before.changes) {
    if (!made.has(change.address)) changes.push(removed(change));
  }
  return changePlan(after.id, changes, after.findings);
}

/** The removal of all that a plan would make. */
export function planRemoval(before: ChangePlan): ChangePlan {
  return changePlan(before.id, before.changes.map(removed));
}

function byAddress(plan: ChangePlan): Map<string, PlannedChange> {
  return new Map(plan.changes.map((change) => [change.address, change]));
}

function updated(was: PlannedChange, is: PlannedChange): PlannedChange[] {
  const old = new Map(was.attributes.map(({ name, after }) => [name, after]));
  const now = new Map(is.attributes.map(({ name, after }) => [name, after]));
  const names = [...new Set([...old.keys(), ...now.keys()])];
  const attributes = names.flatMap((name): AttributeChange[] => {
    const [before, after] = [old.get(name) ?? null, now.get(name) ?? null];
    return before === after ? [] : [{ name, before, after }];
  });
  return attributes.length === 0 ? [] : [{ ...is, action: "update", attributes }];
}

function removed(change: PlannedChange): PlannedChange {
  const attributes = change.attributes.map(({ name, after }) => ({
    name,
    before: after,
    after: null,
  }));
  return { ...change, action: "delete", attributes };
}
