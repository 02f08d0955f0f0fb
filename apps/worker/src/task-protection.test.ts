import type { ClusterDeployment, ClusterDriver } from "@millrace/provisioner";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FakeEcs } from "../test/fake-ecs.ts";
import { boundedDriver } from "./bounded-driver.ts";
import { PROTECTED_MINUTES_MAX, TaskProtection } from "./task-protection.ts";

let ecs: FakeEcs;
let agentUri: string;
const warnings: unknown[] = [];
const logger = { warn: (...args: unknown[]) => void warnings.push(args) };
const deployment = { organizationId: "org_a" } as ClusterDeployment;

beforeEach(async () => {
  ecs = new FakeEcs();
  agentUri = await ecs.start();
  warnings.length = 0;
});

afterEach(() => ecs.stop());

/** A driver whose applies last until they are ended, behind the protection of a task. */
function protectedDriver(uri: string | undefined) {
  const ends: (() => void)[] = [];
  const during: boolean[] = [];
  const apply = () => {
    during.push(ecs.protectedTask);
    return new Promise<void>((resolve) => ends.push(resolve));
  };
  const protection = new TaskProtection({ agentUri: uri, logger });
  const driver = boundedDriver({ name: "aws", apply } as unknown as ClusterDriver, 2, (work) =>
    protection.during(work),
  );
  return { driver, ends, during };
}

test("a deployment finds the task protected from the first apply's start to the last one's end", async () => {
  const { driver, ends, during } = protectedDriver(agentUri);
  const first = driver.apply(deployment, "a");
  const second = driver.apply(deployment, "b");
  await vi.waitFor(() => expect(ends).toHaveLength(2));
  expect(during).toEqual([true, true]);
  ends[0]?.();
  await first;
  expect(ecs.protectedTask).toBe(true);
  ends[1]?.();
  await second;
  await vi.waitFor(() => expect(ecs.protectedTask).toBe(false));
  const path = "/api/task/task-protection/v1/state";
  expect(ecs.asked).toEqual([
    ["PUT", path, true, { ExpiresInMinutes: PROTECTED_MINUTES_MAX }],
    ["PUT", path, false, {}],
  ]);
  const third = driver.apply(deployment, "c");
  await vi.waitFor(() => expect(ends).toHaveLength(3));
  expect(during[2]).toBe(true);
  ends[2]?.();
  await third;
});

test("a failed apply ends the protection", async () => {
  const protection = new TaskProtection({ agentUri, logger });
  await expect(protection.during(() => Promise.reject(new Error("no")))).rejects.toThrow("no");
  await vi.waitFor(() => expect(ecs.asked).toHaveLength(2));
  expect(ecs.protectedTask).toBe(false);
});

test("where ECS refuses, or is not there, the work is done", async () => {
  ecs.refuses = true;
  for (const uri of [agentUri, "http://127.0.0.1:1", undefined]) {
    const protection = new TaskProtection({ agentUri: uri, logger });
    expect(await protection.during(async () => "done")).toBe("done");
  }
  await vi.waitFor(() => expect(warnings).toHaveLength(4));
  expect(JSON.stringify(warnings[0])).toContain("did not change the protection");
});
