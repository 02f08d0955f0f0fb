/**
 * The life of a cluster of several brokers on an emulated AWS, with real Terraform: each test continues from the last. What one
 * broker has as well is in lifecycle.test.ts.
 */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AutoScalingClient, DescribeAutoScalingGroupsCommand } from "@aws-sdk/client-auto-scaling";
import { DescribeVolumesCommand, EC2Client, type Tag } from "@aws-sdk/client-ec2";
import { GetSecretValueCommand, SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import { clusterNames } from "@millrace/infra";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AwsDriver } from "../../src/aws.ts";
import type { ClusterDeployment, RunEvent } from "../../src/index.ts";
import { leftOf } from "../aws-leftovers.ts";
import { type FakeGateway, startFakeGateway } from "../fake-gateway.ts";
import {
  ACCOUNT_ID,
  awsDeployment,
  clientOptions,
  driverOptions,
  hasEmulator,
  type Moto,
  startMoto,
} from "../moto.ts";

const CLUSTER = "clu_01JQZ3K5T9";
const NAMES = clusterNames(CLUSTER, ACCOUNT_ID);
const APPLY_MS = 900_000;
const fence = { operationId: "op_a", attempt: 1 };
const IO2 = { type: "io2", sizeGib: 20, iops: 3000, throughputMibps: undefined } as const;

describe.skipIf(!hasEmulator)("a cluster of several brokers on an emulated AWS", () => {
  let home: string;
  let moto: Moto;
  let gateway: FakeGateway;
  let driver: AwsDriver;
  let wanted: ClusterDeployment;
  const revoked: (number | undefined)[] = [];
  const issuedTo = new Set<number>();
  const events: RunEvent[] = [];
  const options = { fence, onEvent: (event: RunEvent) => void events.push(event) };
  let autoScaling: AutoScalingClient;
  let ec2: EC2Client;
  let secrets: SecretsManagerClient;

  /** Log volumes by slot. */
  async function volumes() {
    const Filters = [{ Name: "tag:millrace:volume", Values: ["wal"] }];
    const { Volumes = [] } = await ec2.send(new DescribeVolumesCommand({ Filters }));
    const slotOf = (tags: Tag[] = []) =>
      Number(tags.find(({ Key }) => Key === "millrace:slot")?.Value);
    return new Map(Volumes.map((volume) => [slotOf(volume.Tags), volume]));
  }

  async function secretText(name: string): Promise<string> {
    const answer = await secrets.send(new GetSecretValueCommand({ SecretId: name }));
    return answer.SecretString ?? "";
  }

  async function groupSizes(): Promise<(number | undefined)[]> {
    const answer = await autoScaling.send(new DescribeAutoScalingGroupsCommand({}));
    return (answer.AutoScalingGroups ?? []).map((group) => group.DesiredCapacity);
  }

  /** Brokers that joined, and lead something. */
  function joined(...ids: number[]): void {
    for (const id of ids) {
      gateway.members.set(id, "active");
      gateway.leading.add(id);
    }
  }

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), "millrace-aws-"));
    moto = await startMoto({ patched: true });
    autoScaling = new AutoScalingClient(clientOptions(moto.endpoint));
    ec2 = new EC2Client(clientOptions(moto.endpoint));
    secrets = new SecretsManagerClient(clientOptions(moto.endpoint));
    gateway = await startFakeGateway();
    driver = new AwsDriver(
      driverOptions(home, moto.endpoint, {
        gateways: gateway,
        waits: { drainMs: 5_000, leftMs: 5_000, pollMs: 50 },
        linkCredentials: {
          async issue({ brokerId }) {
            issuedTo.add(brokerId);
            return `mlk_${brokerId}`;
          },
          withdraw: async () => {},
          async revoke(_, brokerId) {
            revoked.push(brokerId);
            if (brokerId !== undefined) gateway.members.set(brokerId, "left");
          },
        },
      }),
    );
    const deployment = await awsDeployment(driver, CLUSTER);
    if (deployment.aws === undefined) throw new Error("a cluster on AWS has a spec for it");
    wanted = { ...deployment, brokers: 3, aws: { ...deployment.aws, wal: IO2 } };
  }, APPLY_MS);

  afterAll(async () => {
    await gateway?.stop();
    await moto?.stop();
    if (home) await rm(home, { recursive: true, force: true });
  });

  test("is planned with its database, and with what its zones mean", {
    timeout: APPLY_MS,
  }, async () => {
    const plan = await driver.plan(wanted, { ...options, purpose: "apply" });
    expect(plan.findings.filter(({ severity }) => severity === "error")).toEqual([]);
    const alone = plan.findings.filter(({ rule }) => rule === "alone-in-zone");
    expect(alone.map(({ address }) => address)).toEqual(
      [1, 2, 3].map((id) => `aws_ebs_volume.wal-${id}_volume`),
    );
    expect(plan.diff).toContain("aws_db_instance.metadata_instance");
    await driver.apply(wanted, plan.id, options);
    await expect(driver.waitReady(wanted, { timeoutMs: 1 })).rejects.toMatchObject({
      detail: expect.stringContaining("Broker 1 has not joined the cluster."),
    });
    joined(1, 2, 3);
    await driver.waitReady(wanted, { timeoutMs: 60_000 });
    expect(await driver.observe(wanted)).toBe("ready");
    expect([...issuedTo]).toEqual([1, 2, 3]);
    const found = await volumes();
    expect([...found.keys()].sort()).toEqual([1, 2, 3]);
    expect([...found.values()].map(({ VolumeType }) => VolumeType)).toEqual(["io2", "io2", "io2"]);
  });

  test("has a password that is in no state, no plan and no event", async () => {
    const password = await secretText(NAMES.metadataSecrets.password);
    expect(password).toMatch(/^[0-9a-f]{48}$/);
    expect(await secretText(NAMES.metadataSecrets.url)).toMatch(
      new RegExp(`^postgres://millrace:${password}@[^/]+:5432/millrace\\?sslmode=verify-full`),
    );
    expect(JSON.stringify(events)).not.toContain(password);
    for (const file of await readdir(join(home, "terraform", CLUSTER), { recursive: true })) {
      const path = join(home, "terraform", CLUSTER, file);
      const text = await readFile(path, "latin1").catch(() => "");
      expect(text, file).not.toContain(password);
    }
  });

  test("grows to five, and its brokers keep their volumes and their password", {
    timeout: APPLY_MS,
  }, async () => {
    const before = await volumes();
    const password = await secretText(NAMES.metadataSecrets.password);
    wanted = { ...wanted, brokers: 5 };
    const plan = await driver.plan(wanted, { ...options, purpose: "apply" });
    expect(plan.findings.filter(({ severity }) => severity === "error")).toEqual([]);
    // Slots that come change nothing of those that are there, and nothing of what they share.
    expect(new Set(plan.changes.map(({ action }) => action))).toEqual(new Set(["create"]));
    await driver.apply(wanted, plan.id, options);
    joined(4, 5);
    await driver.waitReady(wanted, { timeoutMs: 60_000 });
    const after = await volumes();
    expect([...after.keys()].sort()).toEqual([1, 2, 3, 4, 5]);
    for (const [slot, { VolumeId }] of before) expect(after.get(slot)?.VolumeId).toBe(VolumeId);
    expect(after.get(4)?.AvailabilityZone).toBe(after.get(1)?.AvailabilityZone);
    expect(await secretText(NAMES.metadataSecrets.password)).toBe(password);
  });

  test("keeps a slot whose broker has not left, and removes it once it has", {
    timeout: APPLY_MS,
  }, async () => {
    wanted = { ...wanted, brokers: 3 };
    const plan = await driver.plan(wanted, { ...options, purpose: "apply" });
    expect(plan.findings.filter(({ severity }) => severity === "error")).toEqual([]);
    const deleted = plan.changes.filter(({ action }) => action === "delete");
    expect(deleted.map(({ address }) => address)).toEqual(
      expect.arrayContaining([4, 5].map((id) => `aws_ebs_volume.wal-${id}_volume`)),
    );
    await expect(driver.apply(wanted, plan.id, options)).rejects.toMatchObject({
      code: "not_drained_in_time",
      message: expect.stringContaining("broker 5 has not left the cluster"),
    });
    expect(gateway.drained).toEqual([5]);
    expect([...(await volumes()).keys()].sort()).toEqual([1, 2, 3, 4, 5]);
    expect((await groupSizes()).filter((size) => size === 0)).toHaveLength(1);
    expect(revoked).toEqual([]);

    for (const id of [4, 5]) gateway.members.set(id, "left");
    await driver.apply(wanted, plan.id, options);
    expect([...(await volumes()).keys()].sort()).toEqual([1, 2, 3]);
    expect(revoked).toEqual([5, 4]);
    await driver.waitReady(wanted, { timeoutMs: 60_000 });
  });

  test("is purged with its database, and nothing is left", { timeout: APPLY_MS }, async () => {
    const plan = await driver.plan(wanted, { ...options, purpose: "purge" });
    expect(plan.findings.filter(({ severity }) => severity === "error")).toEqual([]);
    await driver.apply(wanted, plan.id, options);
    expect(await driver.isDestroyed(CLUSTER)).toBe(true);
    expect(await leftOf(moto.endpoint, CLUSTER)).toEqual([]);
  });
});
