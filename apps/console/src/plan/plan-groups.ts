/** A plan's changes, grouped by purpose instead of by AWS resource type. */
import type { ChangePlan } from "@millrace/contract";
import { nounOf, PLAN_NOUNS } from "@millrace/domain";

export type PlannedChange = ChangePlan["changes"][number];
type PlanAction = PlannedChange["action"];

export interface PlanGroup {
  title: string;
  changes: PlannedChange[];
}

/** Actions from the one to look at first to the one that changes nothing. */
const ORDER: readonly PlanAction[] = ["delete", "replace", "update", "import", "create", "read"];

/** A plan's changes by noun; within one, what is lost stands before what is made. */
export function groupsOf(changes: readonly PlannedChange[]): PlanGroup[] {
  const byTitle = new Map<string, PlannedChange[]>();
  for (const change of changes) {
    const title = nounOf(change.type);
    byTitle.set(title, [...(byTitle.get(title) ?? []), change]);
  }
  return PLAN_NOUNS.flatMap((title) => {
    const group = byTitle.get(title);
    return group ? [{ title, changes: group.toSorted(byWeight) }] : [];
  });
}

function byWeight(a: PlannedChange, b: PlannedChange): number {
  const order = ORDER.indexOf(a.action) - ORDER.indexOf(b.action);
  return order === 0 ? a.address.localeCompare(b.address, "en", { numeric: true }) : order;
}

type Summary = Record<Exclude<PlanAction, "read">, number>;

const WORDS: readonly [keyof Summary, string][] = [
  ["create", "to create"],
  ["update", "to change"],
  ["replace", "to replace"],
  ["delete", "to delete"],
  ["import", "to import"],
];

/** `38 to create, 1 to change`; zeros are left out. */
export function summaryText(summary: Summary): string {
  const parts = WORDS.flatMap(([action, words]) =>
    summary[action] > 0 ? [`${summary[action]} ${words}`] : [],
  );
  return parts.length === 0 ? "No changes" : parts.join(", ");
}

/** True where the plan deletes data. */
export function losesData(changes: readonly PlannedChange[]): boolean {
  return changes.some(
    ({ type, action }) =>
      (action === "delete" || action === "replace") &&
      /^(aws_ebs_volume|aws_s3_bucket|folder)$/.test(type),
  );
}
