/** A deployment of the worker in mid-apply, as ECS does it: it stops the task once that is not protected. */
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { createCluster } from "@millrace/core";
import type { Operation } from "@millrace/domain";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasEmulator, REGION } from "../../../../packages/provisioner/test/moto.ts";
import { tenantOf } from "../aws-drill.ts";
import { awsSite } from "../aws-site-fixture.ts";
import { FakeEcs } from "../fake-ecs.ts";

/** An apply takes 100 s on a free machine, and several times as much beside the rest of the suite. */
const REDEPLOY_MS = 25 * 60_000;
const POLL_MS = 50;

describe.skipIf(!hasEmulator)("a worker on ECS", () => {
  const site = awsSite();
  const ecs = new FakeEcs();
  let agentUri: string;

  beforeAll(async () => {
    agentUri = await ecs.start();
  });
  afterAll(() => ecs.stop());

  /** Terraforms that carry out a plan now. */
  const applies = () =>
    site()
      .terraforms()
      .filter((pid) => {
        try {
          return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").includes("apply");
        } catch {
          return false;
        }
      });

  async function until(what: string, isSo: () => Promise<boolean> | boolean): Promise<void> {
    const deadline = performance.now() + REDEPLOY_MS;
    while (!(await isSo())) {
      if (performance.now() > deadline) throw new Error(`never: ${what}`);
      await sleep(POLL_MS);
    }
  }

  test("is replaced in mid-apply without cutting it off, and the next one goes on", {
    timeout: REDEPLOY_MS,
  }, async () => {
    const { db } = site();
    const { core, principal } = await tenantOf(site());
    await site().startWorker({ ECS_AGENT_URI: agentUri });
    const wanted = { name: "redeployed", region: REGION, size: "dev" } as const;
    const { operation } = await createCluster(core, principal, wanted);
    const now = async () => (await db.operations.load(operation.id)) as Operation;

    // The deployment begins here, and has to wait.
    await until("an apply", async () => applies().length > 0 || (await now()).done);
    expect(ecs.protectedTask).toBe(true);
    await until("no protection", () => !ecs.protectedTask);
    expect(applies()).toEqual([]);
    const serial = (await db.terraformStates.load((await now()).clusterId))?.serial;
    expect(await site().stopWorker()).toBe(0);

    await site().startWorker({ ECS_AGENT_URI: agentUri });
    await until("the end", async () => (await now()).done);
    const ended = await now();
    expect(ended.phase).toBe("SUCCEEDED");
    // Nothing was left for the next worker to apply.
    const after = await db.terraformStates.load(ended.clusterId);
    expect(after?.serial).toBe(serial);
  });
});
