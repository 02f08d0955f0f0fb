import type { ClusterDeployment, ClusterDriver } from "@millrace/provisioner";
import { expect, test } from "vitest";
import { boundedDriver } from "./bounded-driver.ts";

const deployment = {} as ClusterDeployment;

function slowDriver() {
  const ends: (() => void)[] = [];
  const begun: string[] = [];
  const apply = (_: ClusterDeployment, planId: string) => {
    begun.push(planId);
    return new Promise<void>((resolve) => ends.push(resolve));
  };
  return { begun, ends, driver: { name: "aws", apply } as unknown as ClusterDriver };
}

test("runs beyond the bound wait, in order", async () => {
  const { driver, begun, ends } = slowDriver();
  const bounded = boundedDriver(driver, 2);
  const runs = ["a", "b", "c", "d"].map((id) => bounded.apply(deployment, id));
  await Promise.resolve();
  expect(begun).toEqual(["a", "b"]);
  for (let index = 0; index < 4; index += 1) {
    ends[index]?.();
    await runs[index];
    await Promise.resolve();
  }
  expect(begun).toEqual(["a", "b", "c", "d"]);
});

test("an organization with many clusters does not delay the others", async () => {
  const { driver, begun, ends } = slowDriver();
  const bounded = boundedDriver(driver, 2);
  const of = (organizationId: string) => ({ organizationId }) as ClusterDeployment;
  const runs = ["a1", "a2", "a3", "a4"].map((id) => bounded.apply(of("a"), id));
  runs.push(bounded.apply(of("b"), "b1"), bounded.apply(of("b"), "b2"));
  for (let index = 0; index < 4; index += 1) {
    ends[index]?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(begun).toEqual(["a1", "a2", "b1", "a3", "b2", "a4"]);
  for (const end of ends) end();
  await Promise.all(runs);
});

test("a caller that aborts while waiting leaves the queue and uses no slot", async () => {
  const { driver, begun, ends } = slowDriver();
  const bounded = boundedDriver(driver, 1);
  const first = bounded.apply(deployment, "a");
  const abort = new AbortController();
  const second = bounded.apply(deployment, "b", { signal: abort.signal });
  const third = bounded.apply(deployment, "c");
  abort.abort(new Error("stopped"));
  await expect(second).rejects.toThrow("stopped");
  ends[0]?.();
  await first;
  await Promise.resolve();
  expect(begun).toEqual(["a", "c"]);
  ends[1]?.();
  await third;
});

test("a run that fails frees its slot", async () => {
  const apply = async () => {
    throw new Error("no");
  };
  const bounded = boundedDriver({ name: "aws", apply } as unknown as ClusterDriver, 1);
  await expect(bounded.apply(deployment, "a")).rejects.toThrow("no");
  await expect(bounded.apply(deployment, "b")).rejects.toThrow("no");
});

test("a preparation is aborted, fenced and reported like any other run", async () => {
  const given: unknown[] = [];
  const { driver, ends } = slowDriver();
  const prepare = async (_: ClusterDeployment, options: unknown) => {
    given.push(options);
  };
  const bounded = boundedDriver({ ...driver, prepare } as ClusterDriver, 1);
  const first = bounded.apply(deployment, "a");
  const abort = new AbortController();
  const waiting = bounded.prepare(deployment, { signal: abort.signal });
  abort.abort(new Error("stopped"));
  await expect(waiting).rejects.toThrow("stopped");
  ends[0]?.();
  await first;
  const options = { fence: { operationId: "op_a", attempt: 1 }, onEvent: () => {} };
  await bounded.prepare(deployment, options);
  expect(given).toEqual([options]);
});
