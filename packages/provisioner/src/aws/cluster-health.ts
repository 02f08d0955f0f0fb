/** The health of a cluster's brokers as AWS reports it: whether each slot has an instance, and whether it serves. */
import { DescribeAutoScalingGroupsCommand } from "@aws-sdk/client-auto-scaling";
import {
  DescribeTargetGroupsCommand,
  DescribeTargetHealthCommand,
} from "@aws-sdk/client-elastic-load-balancing-v2";
import { clusterNames } from "@millrace/infra";
import type { Observation } from "../cluster-driver.ts";
import type { AwsClients } from "./aws-account.ts";

export interface ClusterHealth {
  readonly observation: Exclude<Observation, "absent">;
  /** Why the cluster is not `ready`, in one sentence. */
  readonly message: string;
  /** The slot that is not ready. */
  readonly slot?: number;
}

/**
 * `ready` if each slot's group has its instance in service and the load balancer finds it healthy: it takes
 * connections, which a broker does once it serves.
 */
export async function clusterHealth(
  clients: AwsClients,
  {
    clusterId,
    accountId,
    brokerIds,
  }: { clusterId: string; accountId: string; brokerIds: readonly number[] },
): Promise<ClusterHealth> {
  const names = clusterNames(clusterId, accountId);
  const groupNames = brokerIds.map((slot) => names.autoScalingGroup(slot));
  const command = new DescribeAutoScalingGroupsCommand({ AutoScalingGroupNames: groupNames });
  const groups = (await clients.autoScaling.send(command)).AutoScalingGroups ?? [];
  if (groups.every((group) => group.DesiredCapacity === 0)) {
    return { observation: "stopped", message: "No broker is supposed to run." };
  }
  for (const slot of brokerIds) {
    const name = names.autoScalingGroup(slot);
    const group = groups.find((each) => each.AutoScalingGroupName === name);
    const instances = group?.Instances ?? [];
    const inService = instances.filter((each) => each.LifecycleState === "InService");
    if (inService.length === 0) {
      const states = instances.map((each) => each.LifecycleState).join(", ") || "no instance";
      return { observation: "starting", message: `Group ${name} has ${states}.`, slot };
    }
  }
  for (const slot of brokerIds) {
    const health = await targetHealth(clients, `${names.prefix}-kafka-${slot}`);
    if (health !== "healthy") {
      const message = `Slot ${slot} is ${health} for the load balancer.`;
      return { observation: "starting", message, slot };
    }
  }
  return { observation: "ready", message: "All brokers are healthy." };
}

async function targetHealth(clients: AwsClients, name: string): Promise<string> {
  try {
    const command = new DescribeTargetGroupsCommand({ Names: [name] });
    const arn = (await clients.elb.send(command)).TargetGroups?.[0]?.TargetGroupArn;
    const answer = await clients.elb.send(new DescribeTargetHealthCommand({ TargetGroupArn: arn }));
    const states = (answer.TargetHealthDescriptions ?? []).map((each) => each.TargetHealth);
    if (states.some((each) => each?.State === "healthy")) return "healthy";
    const [first] = states;
    return first === undefined ? "not registered" : `${first.State} (${first.Reason ?? "?"})`;
  } catch (error) {
    if (error instanceof Error && error.name.startsWith("TargetGroupNotFound")) return "absent";
    throw error;
  }
}
