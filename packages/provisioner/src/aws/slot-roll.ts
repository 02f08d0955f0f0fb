/**
 * Applies a change of a slot's launch template (machine, broker build, settings) by replacing its instance,
 * because AWS does not change a running one. One slot at a time, and the next only when all serve again. A slot
 * that does not serve is replaced at once, since the change may fix it.
 */
import {
  DescribeAutoScalingGroupsCommand,
  TerminateInstanceInAutoScalingGroupCommand,
} from "@aws-sdk/client-auto-scaling";
import type { AwsClients } from "./aws-account.ts";
import type { ClusterHealth } from "./cluster-health.ts";

export interface OutdatedInstance {
  readonly slot: number;
  readonly instanceId: string;
}

/** Instances in service that were launched from another version of the template than their group has now. */
export async function outdatedInstances(
  { autoScaling }: Pick<AwsClients, "autoScaling">,
  brokerIds: readonly number[],
  groupOf: (brokerId: number) => string,
): Promise<OutdatedInstance[]> {
  const AutoScalingGroupNames = brokerIds.map(groupOf);
  const command = new DescribeAutoScalingGroupsCommand({ AutoScalingGroupNames });
  const groups = (await autoScaling.send(command)).AutoScalingGroups ?? [];
  return brokerIds.flatMap((slot) => {
    const group = groups.find((each) => each.AutoScalingGroupName === groupOf(slot));
    const wanted = group?.LaunchTemplate?.Version;
    if (wanted === undefined) return [];
    return (group?.Instances ?? []).flatMap(({ InstanceId, LifecycleState, LaunchTemplate }) => {
      const began = LaunchTemplate?.Version;
      const outdated = LifecycleState === "InService" && began !== undefined && began !== wanted;
      return outdated && InstanceId !== undefined ? [{ slot, instanceId: InstanceId }] : [];
    });
  });
}

/** The instance to replace now; undefined if none is outdated, or the outdated ones must wait. */
export function nextToReplace(
  outdated: readonly OutdatedInstance[],
  { observation, slot }: ClusterHealth,
): OutdatedInstance | undefined {
  if (observation === "ready") return outdated[0];
  return outdated.find((each) => each.slot === slot);
}

/** Terminates the instance; its group launches another one, which attaches the volume. */
export async function replaceInstance(
  { autoScaling }: Pick<AwsClients, "autoScaling">,
  { instanceId }: OutdatedInstance,
): Promise<void> {
  const command = new TerminateInstanceInAutoScalingGroupCommand({
    InstanceId: instanceId,
    ShouldDecrementDesiredCapacity: false,
  });
  await autoScaling.send(command);
}
