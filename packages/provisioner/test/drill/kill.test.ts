/**
 * Terraform is killed with SIGKILL at random moments of every kind of change, and the next run continues. In the
 * end the cluster is as requested, nothing exists twice, and a purge, killed as well, leaves nothing.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  DescribeKeyCommand,
  KMSClient,
  ListKeysCommand,
  ListResourceTagsCommand,
} from "@aws-sdk/client-kms";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AwsDriver } from "../../src/aws.ts";
import { type ClusterDeployment, type PlanPurpose, ProvisionError } from "../../src/index.ts";
import { dataOf, madeTwice } from "../aws-by-hand.ts";
import { leftOf } from "../aws-leftovers.ts";
import { type FakeGateway, startFakeGateway } from "../fake-gateway.ts";
import { MemoryStates } from "../memory-states.ts";
import {
  awsDeployment,
  clientOptions,
  driverOptions,
  hasEmulator,
  type Moto,
  startMoto,
} from "../moto.ts";
import { seededRandom } from "../seeded-random.ts";

const CLUSTER = "clu_01JQZ3K5T9";
/** Of the ten kills, how many fall into each kind of change; the last of each is left to finish. */
const KILLS = { create: 6, update: 1, destroy: 1, purge: 2 } as const;
/** A kill falls within this of the beginning of an apply: most of a stack is made by then. */
const KILL_WITHIN_MS = 16_000;
const TEST_MS = 900_000;

describe.skipIf(!hasEmulator)("Terraform killed at random moments", () => {
  let home: string;
  let moto: Moto;
  let gateway: FakeGateway;
  let wanted: ClusterDeployment;
  const states = new MemoryStates();
  const seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 100_000);
  const random = seededRandom(seed);
  let attempt = 0;
  let kills = 0;

  /** A driver that knows nothing of the one before, as that of a new worker. */
  function newDriver(): AwsDriver {
    return new AwsDriver(driverOptions(home, moto.endpoint, { states, seal, gateways: gateway }));
  }
  const { seal } = driverOptions("/", "http://localhost");

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), "millrace-kill-"));
    moto = await startMoto({ patched: true });
    gateway = await startFakeGateway();
    wanted = await awsDeployment(newDriver(), CLUSTER);
  }, 90_000);

  afterAll(async () => {
    await gateway?.stop();
    await moto?.stop();
    if (home) await rm(home, { recursive: true, force: true });
  });

  /** Plans and applies until it succeeds; kills Terraform in the first `killed` applies. */
  async function through(purpose: PlanPurpose, killed: number): Promise<void> {
    for (let tries = 0; ; tries += 1) {
      attempt += 1;
      const options = { fence: { operationId: "op_a", attempt } };
      const driver = newDriver();
      const plan = await driver.plan(wanted, { ...options, purpose });
      const forbidden = plan.changes.filter(
        ({ type, action }) => /volume|bucket$/.test(type) && ["delete", "replace"].includes(action),
      );
      if (purpose !== "purge") expect(forbidden).toEqual([]);
      const stop = new AbortController();
      const killing = tries < killed ? killOnce(stop.signal) : undefined;
      try {
        await driver.apply(wanted, plan.id, options);
        return;
      } catch (error) {
        if (!(error instanceof ProvisionError) || tries >= killed) throw error;
        // Its last words may be of something else that failed before it was killed.
        expect(error.code).toBe("apply_failed");
      } finally {
        stop.abort();
        await killing;
      }
    }
  }

  async function killOnce(signal: AbortSignal): Promise<void> {
    const pidFile = join(home, "terraform", CLUSTER, "terraform.pid");
    await sleep(1_000 + random() * KILL_WITHIN_MS);
    while (!signal.aborted) {
      const text = await readFile(pidFile, "utf8").catch(() => "");
      const pid = text === "" ? undefined : JSON.parse(text).process.pid;
      if (pid !== undefined) {
        process.kill(pid, "SIGKILL");
        kills += 1;
        return;
      }
      await sleep(20);
    }
  }

  /** Every address has one resource: nothing was created twice. */
  async function expectNothingTwice(): Promise<void> {
    expect(await madeTwice(moto.endpoint, CLUSTER)).toEqual([]);
    const { volumes } = await dataOf(moto.endpoint, CLUSTER);
    expect(volumes).toHaveLength(1);
    expect(await keys()).toEqual(["aws_kms_key.encryption_key"]);
  }

  async function keys(): Promise<string[]> {
    const kms = new KMSClient(clientOptions(moto.endpoint));
    const { Keys } = await kms.send(new ListKeysCommand({}));
    const tags = await Promise.all(
      (Keys ?? []).map(async ({ KeyId }) => {
        const { KeyMetadata } = await kms.send(new DescribeKeyCommand({ KeyId }));
        if (KeyMetadata?.KeyState === "PendingDeletion") return [];
        return (await kms.send(new ListResourceTagsCommand({ KeyId }))).Tags ?? [];
      }),
    );
    return tags
      .flat()
      .filter((tag) => tag.TagKey === "millrace:address")
      .map((tag) => tag.TagValue ?? "");
  }

  test(`a creation, seed ${seed}`, { timeout: TEST_MS }, async () => {
    await through("apply", KILLS.create);
    await newDriver().waitReady(wanted, { timeoutMs: 60_000 });
    await expectNothingTwice();
    const plan = await newDriver().plan(wanted, { purpose: "apply" });
    expect(plan.diff).toBe("No changes.\n");
  });

  test(`a change of the volume, seed ${seed}`, { timeout: TEST_MS }, async () => {
    if (!wanted.aws) throw new Error("a cluster on AWS has a spec for it");
    const wal = { ...wanted.aws.wal, throughputMibps: 300, iops: 5000 };
    wanted = { ...wanted, aws: { ...wanted.aws, wal } };
    await through("apply", KILLS.update);
    await expectNothingTwice();
  });

  test(`a deletion and a purge, seed ${seed}`, { timeout: TEST_MS }, async () => {
    await through("destroy", KILLS.destroy);
    await expectNothingTwice();
    await through("purge", KILLS.purge);
    expect(await leftOf(moto.endpoint, CLUSTER)).toEqual([]);
    expect(await newDriver().isDestroyed(CLUSTER)).toBe(true);
    expect(kills).toBeGreaterThanOrEqual(KILLS.create);
  });
});
