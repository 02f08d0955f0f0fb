import {
  AutoScalingClient,
  TerminateInstanceInAutoScalingGroupCommand,
  UpdateAutoScalingGroupCommand,
} from "@aws-sdk/client-auto-scaling";
import { BrokerError } from "@millrace/broker-admin";
import type { ClusterMember, MemberState } from "@millrace/domain";
import { beforeEach, expect, test } from "vitest";
import { answering } from "../../test/answering.ts";
import { SeveralSlots } from "./several-slots.ts";

let members: Map<number, ClusterMember>;
/** Ids of brokers that do not answer. */
let silent: Set<number>;
let calls: string[];
/** What happens after a call of that text. */
let after: Record<string, () => void>;

function become(id: number, state: MemberState, leaders: number): void {
  const usual = { rack: undefined, version: "1", moving: 0, load: undefined };
  members.set(id, { brokerId: id, state, leaders, ...usual });
}

function called(text: string): void {
  calls.push(text);
  after[text]?.();
}

function slots(brokerIds: readonly number[]): SeveralSlots {
  const autoScaling = answering(AutoScalingClient, (command: unknown) => {
    const { input } = command instanceof UpdateAutoScalingGroupCommand ? command : {};
    if (input !== undefined) called(`${input.AutoScalingGroupName} to ${input.MaxSize}`);
    if (command instanceof TerminateInstanceInAutoScalingGroupCommand)
      called(`end ${command.input.InstanceId}`);
    return { AutoScalingGroups: [{}] };
  });
  const answer = <T>(id: number, value: T): Promise<T> =>
    silent.has(id)
      ? Promise.reject(new BrokerError("unreachable", "silent"))
      : Promise.resolve(value);
  return new SeveralSlots({
    clients: { autoScaling },
    brokerIds,
    groupOf: (id) => `b${id}`,
    waits: { drainMs: 100, leftMs: 100, pollMs: 1 },
    admin: (id) => ({
      cluster: () => answer(id, { members: [...members.values()], events: [] }),
      drain: async (drained) => {
        await answer(id, undefined);
        called(`${id} drains ${drained}`);
      },
    }),
  });
}

beforeEach(() => {
  members = new Map();
  silent = new Set();
  calls = [];
  after = {
    "1 drains 3": () => become(3, "draining", 0),
    "2 drains 3": () => become(3, "draining", 0),
    "b3 to 0": () => become(3, "left", 0),
  };
  for (const id of [1, 2, 3]) become(id, "active", 4);
});

test("a broker that leaves gives away what it leads before its instance ends", async () => {
  await slots([1, 2]).retire(3, {});
  expect(calls).toEqual(["1 drains 3", "b3 to 0"]);
});

test("another broker is asked where the first does not answer", async () => {
  silent.add(1);
  await slots([1, 2]).retire(3, {});
  expect(calls).toEqual(["2 drains 3", "b3 to 0"]);
});

test("a broker stays while one of those that are to take over does not serve", async () => {
  become(2, "fenced", 0);
  await expect(slots([1, 2]).retire(3, {})).rejects.toMatchObject({
    message: expect.stringContaining("broker 2 does not serve"),
  });
  expect(calls).toEqual([]);
});

test("an instance stays while its broker leads something", async () => {
  after["1 drains 3"] = () => become(3, "draining", 1);
  await expect(slots([1, 2]).retire(3, {})).rejects.toMatchObject({
    code: "not_drained_in_time",
    message: "broker 3 still leads partitions",
  });
  expect(calls).toEqual(["1 drains 3"]);
});

test("a slot whose broker died is not gone before others have its log", async () => {
  become(3, "fenced", 0);
  after["b3 to 0"] = () => {};
  const retired = slots([1, 2]).retire(3, {});
  await expect(retired).rejects.toMatchObject({ code: "not_drained_in_time" });
  // Nothing was asked of it, and nothing says that its log is not needed.
  expect(calls).toEqual(["b3 to 0"]);
});

test("a broker that has left already is not asked for anything", async () => {
  become(3, "left", 0);
  await slots([1, 2]).retire(3, {});
  expect(calls).toEqual(["b3 to 0"]);
});

test("without an answer nothing is known, and nothing is gone", async () => {
  silent = new Set([1, 2]);
  const retired = slots([1, 2]).retire(3, {});
  await expect(retired).rejects.toMatchObject({ code: "not_drained_in_time" });
  expect(calls).toEqual([]);
});

test("the first broker that is not an active member is named", async () => {
  expect(await slots([1, 2, 3]).missing()).toBeUndefined();
  become(2, "fenced", 0);
  expect(await slots([1, 2, 3]).missing()).toBe(2);
  silent = new Set([1, 2, 3]);
  expect(await slots([1, 2, 3]).missing()).toBe(1);
});

test("an instance is replaced once its broker leads nothing, while all others serve", async () => {
  const instance = { slot: 3, instanceId: "i-3" };
  become(2, "fenced", 0);
  expect(await slots([1, 2, 3]).replace(instance, {})).toBe(false);
  expect(calls).toEqual([]);
  become(2, "active", 4);
  expect(await slots([1, 2, 3]).replace(instance, {})).toBe(true);
  expect(calls).toEqual(["1 drains 3", "end i-3"]);
});

test("a replacement that was interrupted after the drain goes on", async () => {
  become(3, "draining", 0);
  expect(await slots([1, 2, 3]).replace({ slot: 3, instanceId: "i-3" }, {})).toBe(true);
  expect(calls).toEqual(["end i-3"]);
});

test("a caller that lost its right to act is not kept waiting", async () => {
  after["1 drains 3"] = () => become(3, "draining", 1);
  const drained = slots([1, 2]).drain(3, { signal: AbortSignal.abort() });
  await expect(drained).rejects.toMatchObject({ code: "aborted" });
});
