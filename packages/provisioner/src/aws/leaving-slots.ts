/** Slots that a plan removes: of several brokers, the last ones may go. */
import { plannedChanges } from "../terraform/plan-json.ts";

const SLOT_GROUP = /^aws_autoscaling_group\.slot-(\d+)_group$/;

/** Ids of the slots that the plan removes with everything of them. A deletion of the cluster removes all, and none by this. */
export function leavingSlots(planJson: unknown): number[] {
  const deleted = new Set(
    plannedChanges(planJson)
      .filter(({ action }) => action === "delete")
      .map(({ address }) => address),
  );
  return [...deleted].flatMap((address) => {
    const id = Number(SLOT_GROUP.exec(address)?.[1] ?? 0);
    return id > 0 && deleted.has(logVolumeAddress(id)) ? [id] : [];
  });
}

/** The address of a slot's log volume in the stack. */
export function logVolumeAddress(slot: number): string {
  return `aws_ebs_volume.wal-${slot}_volume`;
}
