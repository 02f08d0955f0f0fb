import type { AutoScalingClient, AutoScalingGroup, Instance } from "@aws-sdk/client-auto-scaling";
import { expect, test } from "vitest";
import { nextToReplace, outdatedInstances, replaceInstance } from "./slot-roll.ts";

function group(slot: number, wanted: string, instances: [id: string, began: string][]) {
  const made: AutoScalingGroup = {
    ...{ MinSize: 1, MaxSize: 1, DesiredCapacity: 1, DefaultCooldown: 0 },
    ...{ AvailabilityZones: [], HealthCheckType: "EC2", CreatedTime: new Date(0) },
    AutoScalingGroupName: `b${slot}`,
    LaunchTemplate: { LaunchTemplateId: "lt-1", Version: wanted },
    Instances: instances.map(([InstanceId, Version]) => ({
      ...{ InstanceId, AvailabilityZone: "a", HealthStatus: "Healthy" },
      ...{ ProtectedFromScaleIn: false, LifecycleState: "InService" as const },
      LaunchTemplate: { LaunchTemplateId: "lt-1", Version },
    })),
  };
  return made;
}

/** Auto Scaling with these groups; what is sent is kept. */
function autoScaling(groups: AutoScalingGroup[]) {
  const sent: unknown[] = [];
  const send = async (command: { readonly input: unknown }) => {
    sent.push(command.input);
    return { AutoScalingGroups: groups };
  };
  return { sent, clients: { autoScaling: { send } as unknown as AutoScalingClient } };
}

const READY = { observation: "ready", message: "" } as const;

test("an instance launched from an older template is found, by its slot", async () => {
  const groups = [group(1, "3", [["i-old", "2"]]), group(0, "3", [["i-new", "3"]])];
  const { clients } = autoScaling(groups);
  expect(await outdatedInstances(clients, [0, 1], (id) => `b${id}`)).toEqual([
    { slot: 1, instanceId: "i-old" },
  ]);
});

test("instances that terminate, or whose template is unknown, are left alone", async () => {
  const change = (slot: number, how: Partial<Instance>): AutoScalingGroup => {
    const made = group(slot, "3", [[`i-${slot}`, "2"]]);
    return { ...made, Instances: made.Instances?.map((each) => ({ ...each, ...how })) };
  };
  const { clients } = autoScaling([
    change(0, { LifecycleState: "Terminating" }),
    change(1, { LaunchTemplate: undefined }),
  ]);
  expect(await outdatedInstances(clients, [0, 1], (id) => `b${id}`)).toEqual([]);
});

test("slots are replaced one by one, and none that serves while another does not", () => {
  const outdated = [0, 1, 2].map((slot) => ({ slot, instanceId: `i-${slot}` }));
  expect(nextToReplace(outdated, READY)).toEqual(outdated[0]);
  const waiting = { observation: "starting", message: "", slot: 0 } as const;
  expect(nextToReplace(outdated.slice(1), waiting)).toBeUndefined();
  expect(nextToReplace([], READY)).toBeUndefined();
});

test("a slot that does not serve is replaced at once: the change may fix it", () => {
  const outdated = [0, 1, 2].map((slot) => ({ slot, instanceId: `i-${slot}` }));
  const broken = { observation: "starting", message: "", slot: 1 } as const;
  expect(nextToReplace(outdated, broken)).toEqual(outdated[1]);
});

test("the group keeps its size, so that it starts another", async () => {
  const { clients, sent } = autoScaling([]);
  await replaceInstance(clients, { slot: 0, instanceId: "i-old" });
  expect(sent).toEqual([{ InstanceId: "i-old", ShouldDecrementDesiredCapacity: false }]);
});
