import type { ClusterDeployment, ClusterDriver } from "@millrace/provisioner";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FakeEcs } from "../test/fake-ecs.ts";
import { boundedDriver } from "./bounded-driver.ts";
import {
  ATTEMPTS_MAX,
  PROTECTED_MINUTES,
  RENEWALS_MAX,
  TaskProtection,
} from "./task-protection.ts";

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
    ["PUT", path, true, { ExpiresInMinutes: PROTECTED_MINUTES }],
    ["PUT", path, false, {}],
  ]);
  const third = driver.apply(deployment, "c");
  await vi.waitFor(() => expect(ends).toHaveLength(3));
  expect(during[2]).toBe(true);
  ends[2]?.();
  await third;
  await vi.waitFor(() => expect(ecs.protectedTask).toBe(false));
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
    const protection = new TaskProtection({ agentUri: uri, logger, retryMs: 1 });
    expect(await protection.during(async () => "done")).toBe("done");
  }
  await vi.waitFor(() => expect(warnings).toHaveLength(4));
  expect(JSON.stringify(warnings[0])).toContain("did not change the protection");
});

test("a refusal is followed by further attempts, up to a bound", async () => {
  ecs.refuses = true;
  const protection = new TaskProtection({ agentUri, logger, retryMs: 1 });
  await protection.during(async () => {
    expect(ecs.asked).toHaveLength(ATTEMPTS_MAX);
    ecs.refuses = false;
  });
  await vi.waitFor(() => expect(ecs.asked).toHaveLength(ATTEMPTS_MAX + 1));
  ecs.failures = 1;
  await protection.during(async () => expect(ecs.protectedTask).toBe(true));
  await vi.waitFor(() => expect(ecs.protectedTask).toBe(false));
  expect(warnings).toHaveLength(1);
});

test("the protection of long work is renewed, up to a bound", async () => {
  const protection = new TaskProtection({ agentUri, logger, renewalMs: 1 });
  await protection.during(async () => {
    await vi.waitFor(() => expect(warnings).toHaveLength(1));
    await vi.waitFor(() => expect(ecs.asked).toHaveLength(1 + RENEWALS_MAX));
    expect(ecs.asked.every(([, , enabled]) => enabled)).toBe(true);
  });
  await vi.waitFor(() => expect(ecs.protectedTask).toBe(false));
  expect(ecs.asked).toHaveLength(1 + RENEWALS_MAX + 1);
});
