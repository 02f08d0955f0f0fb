/** A cluster's life cycle on an emulated AWS, with real Terraform: each test continues from the last. */
import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  AutoScalingClient,
  TerminateInstanceInAutoScalingGroupCommand,
} from "@aws-sdk/client-auto-scaling";
import {
  AuthorizeSecurityGroupEgressCommand,
  AuthorizeSecurityGroupIngressCommand,
  DescribeInstancesCommand,
  DescribeSecurityGroupRulesCommand,
  DescribeSecurityGroupsCommand,
  DescribeVolumesCommand,
  EC2Client,
  ModifyVolumeCommand,
} from "@aws-sdk/client-ec2";
import {
  AttachRolePolicyCommand,
  CreatePolicyCommand,
  type IAMClient,
  ListAttachedRolePoliciesCommand,
  ListRolePoliciesCommand,
  PutRolePolicyCommand,
} from "@aws-sdk/client-iam";
import {
  CreateBucketCommand,
  DeleteBucketPolicyCommand,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import { GetSecretValueCommand, SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import { linkCredential } from "@millrace/domain";
import { clusterNames } from "@millrace/infra";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { AwsDriver, type AwsDriverOptions } from "../../src/aws.ts";
import { type ClusterDeployment, isEmptyPlan, type RunEvent } from "../../src/index.ts";
import { leftOf } from "../aws-leftovers.ts";
import { type FakeGateway, startFakeGateway } from "../fake-gateway.ts";
import { MemoryStates } from "../memory-states.ts";
import {
  ACCOUNT_ID,
  awsDeployment,
  clientOptions,
  driverOptions,
  hasEmulator,
  iamClient,
  type Moto,
  startMoto,
} from "../moto.ts";

const CLUSTER = "clu_01JQZ3K5T8";
/** An apply takes 100 s on a machine that is free: the provider's own waits. */
const APPLY_MS = 900_000;
const PLAN_MS = 300_000;
const fence = { operationId: "op_a", attempt: 1 };

describe.skipIf(!hasEmulator)("a cluster on an emulated AWS", () => {
  let home: string;
  let moto: Moto;
  let gateway: FakeGateway;
  /** Credentials of the control link, oldest first. */
  const issued: string[] = [];
  let revoked = 0;
  let settings: AwsDriverOptions;
  let driver: AwsDriver;
  let wanted: ClusterDeployment;
  const states = new MemoryStates();
  const events: RunEvent[] = [];
  const options = { fence, onEvent: (event: RunEvent) => void events.push(event) };
  let autoScaling: AutoScalingClient;
  let ec2: EC2Client;
  let iam: IAMClient;
  let s3: S3Client;

  /** The slot's instance, once it is not `before` any more. */
  async function instance(before?: string): Promise<{ id: string; image: string | undefined }> {
    const states = { Name: "instance-state-name", Values: ["running"] };
    const Filters = [{ Name: "tag:millrace:cluster", Values: [CLUSTER] }, states];
    return await vi.waitFor(
      async () => {
        const { Reservations = [] } = await ec2.send(new DescribeInstancesCommand({ Filters }));
        const [found, ...others] = Reservations.flatMap(({ Instances = [] }) => Instances);
        if (found?.InstanceId === undefined || found.InstanceId === before || others.length > 0) {
          throw new Error("not one new instance");
        }
        return { id: found.InstanceId, image: found.ImageId };
      },
      { timeout: 60_000 },
    );
  }

  /** As Auto Scaling replaces an instance that fails, at any time. */
  async function replacement(): Promise<string | undefined> {
    const { id: InstanceId } = await instance();
    const end = { InstanceId, ShouldDecrementDesiredCapacity: false };
    await autoScaling.send(new TerminateInstanceInAutoScalingGroupCommand(end));
    return (await instance(InstanceId)).image;
  }

  async function volumes() {
    const answer = await ec2.send(new DescribeVolumesCommand({}));
    return (answer.Volumes ?? []).filter((volume) =>
      volume.Tags?.some((tag) => tag.Key === "millrace:address"),
    );
  }

  async function groupOf(clusterId: string, part: string): Promise<string> {
    const Filters = [
      { Name: "tag:millrace:cluster", Values: [clusterId] },
      { Name: "tag:millrace:address", Values: [`aws_security_group.${part}_group`] },
    ];
    const { SecurityGroups } = await ec2.send(new DescribeSecurityGroupsCommand({ Filters }));
    return SecurityGroups?.[0]?.GroupId ?? "";
  }

  /** Rules of the group that let the whole world in or out. */
  async function openIn(GroupId: string) {
    const Filters = [{ Name: "group-id", Values: [GroupId] }];
    const answer = await ec2.send(new DescribeSecurityGroupRulesCommand({ Filters }));
    const open = (answer.SecurityGroupRules ?? []).filter((each) => each.CidrIpv4 === "0.0.0.0/0");
    return {
      ingress: open.filter((each) => !each.IsEgress),
      egress: open.filter((each) => each.IsEgress),
    };
  }

  /** Opens the group to the world, allows its role everything, and returns the role's name. */
  async function holeIn(GroupId: string): Promise<string> {
    const IpRanges = [{ CidrIp: "0.0.0.0/0" }];
    const ssh = [{ IpProtocol: "tcp", FromPort: 22, ToPort: 22, IpRanges }];
    const all = [{ IpProtocol: "-1", IpRanges }];
    await ec2.send(new AuthorizeSecurityGroupIngressCommand({ GroupId, IpPermissions: ssh }));
    await ec2.send(new AuthorizeSecurityGroupEgressCommand({ GroupId, IpPermissions: all }));
    const RoleName = clusterNames(CLUSTER, ACCOUNT_ID).roleOf(0);
    const Statement = [{ Effect: "Allow", Action: "*", Resource: "*" }];
    const PolicyDocument = JSON.stringify({ Version: "2012-10-17", Statement });
    const theirs = { RoleName, PolicyName: "theirs", PolicyDocument };
    await iam.send(new PutRolePolicyCommand(theirs));
    const made = { PolicyName: "everything", PolicyDocument };
    const { Policy } = await iam.send(new CreatePolicyCommand(made));
    await iam.send(new AttachRolePolicyCommand({ RoleName, PolicyArn: Policy?.Arn }));
    return RoleName;
  }

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), "millrace-aws-"));
    moto = await startMoto({ patched: true });
    autoScaling = new AutoScalingClient(clientOptions(moto.endpoint));
    ec2 = new EC2Client(clientOptions(moto.endpoint));
    iam = iamClient(moto.endpoint);
    s3 = new S3Client({ ...clientOptions(moto.endpoint), forcePathStyle: true });
    gateway = await startFakeGateway();
    settings = driverOptions(home, moto.endpoint, {
      states,
      gateways: gateway,
      linkCredentials: {
        async issue() {
          const credential = linkCredential(randomBytes(32).toString("base64url"));
          issued.push(credential);
          return credential;
        },
        withdraw: () => Promise.reject(new Error("every credential reaches its slot")),
        async revoke() {
          revoked += 1;
        },
      },
    });
    driver = new AwsDriver(settings);
    wanted = await awsDeployment(driver, CLUSTER);
    const region = { LocationConstraint: "eu-central-1" } as const;
    await s3.send(
      new CreateBucketCommand({ Bucket: "a-stranger", CreateBucketConfiguration: region }),
    );
  }, PLAN_MS);

  afterAll(async () => {
    await gateway?.stop();
    await moto?.stop();
    if (home) await rm(home, { recursive: true, force: true });
  });

  test("is prepared, and has its names before it exists", { timeout: PLAN_MS }, async () => {
    expect(await driver.isPrepared(wanted)).toBe(false);
    await driver.prepare(wanted, options);
    expect(await driver.isPrepared(wanted)).toBe(true);
    expect(wanted.placement.host).toMatch(/^bootstrap\.[a-z2-7]{10}\.millrace\.internal$/);
    expect(await driver.observe(wanted)).toBe("absent");
  });

  test("is planned, applied and ready", { timeout: APPLY_MS }, async () => {
    const plan = await driver.plan(wanted, { ...options, purpose: "apply" });
    expect(plan.findings.filter((each) => each.severity === "error")).toEqual([]);
    expect(plan.summary).toMatchObject({ update: 0, replace: 0, delete: 0, import: 0 });
    expect(plan.summary.create).toBeGreaterThan(40);
    await driver.apply(wanted, plan.id, options);
    // A caller that does not know that it succeeded may repeat it.
    await driver.apply(wanted, plan.id, options);
    await driver.waitReady(wanted, { timeoutMs: 60_000 });
    expect(await driver.observe(wanted)).toBe("ready");
    expect(await volumes()).toHaveLength(1);
    expect(events.filter((event) => event.kind === "done").length).toBeGreaterThan(30);
  });

  test("is not changed by a second plan", { timeout: PLAN_MS }, async () => {
    const plan = await driver.plan(wanted, { ...options, purpose: "apply" });
    expect(plan.diff).toBe("No changes.\n");
  });

  test("has its newest credential in its secret, and none in its state", async () => {
    const { linkSecret } = clusterNames(CLUSTER, ACCOUNT_ID);
    const secrets = new SecretsManagerClient(clientOptions(moto.endpoint));
    const command = new GetSecretValueCommand({ SecretId: linkSecret(0) });
    // Each apply issues one, also where there was nothing to apply.
    expect(issued).toHaveLength(2);
    expect((await secrets.send(command)).SecretString).toBe(issued.at(-1));
    const folder = join(home, "terraform", CLUSTER);
    const state = await readFile(join(folder, "terraform.tfstate"), "utf8");
    for (const credential of issued) {
      expect(state).not.toContain(credential);
      expect(JSON.stringify(events)).not.toContain(credential);
    }
  });

  test("is reached by the gateways alone", async () => {
    expect(await driver.access(wanted)).toMatchObject({
      adminUrl: `${gateway.url}/v1/clusters/${CLUSTER}/brokers/0`,
      adminToken: gateway.token,
      slot: { clusterId: CLUSTER, brokerId: 0 },
    });
    gateway.refuses = true;
    await expect(driver.waitReady(wanted, { timeoutMs: 1 })).rejects.toMatchObject({
      code: "not_ready_in_time",
      detail: expect.stringContaining("slot 0 takes connections, but is not connected"),
    });
    gateway.refuses = false;
  });

  test("is stored encrypted in the database, equal to the file", async () => {
    const stored = await states.load(CLUSTER);
    expect(stored?.organizationId).toBe("org_a");
    expect(Buffer.from(stored?.ciphertext ?? []).toString("latin1")).not.toContain("aws_vpc");
    expect(states.saved.length).toBeGreaterThan(3);
  });

  test("keeps its AMI at night; the plan of its next change has the new one", {
    timeout: APPLY_MS,
  }, async () => {
    const { amiId } = settings.account;
    expect(await replacement()).toBe(amiId);
    // A release: the installation has another AMI now. Nobody has changed the cluster since.
    const newer = "ami-0fedcba9876543210";
    driver = new AwsDriver({ ...settings, account: { ...settings.account, amiId: newer } });
    expect(await replacement()).toBe(amiId);
    const plan = await driver.plan(wanted, { ...options, purpose: "apply" });
    expect(plan.summary).toMatchObject({ create: 0, replace: 0, delete: 0 });
    expect(plan.diff).toContain(newer);
    await driver.apply(wanted, plan.id, options);
    await driver.waitReady(wanted, { timeoutMs: 60_000 });
    // The emulator says of a running instance that it has the newest template: slot-roll.test.ts has its replacement.
  });

  test("changes its volume in place", { timeout: APPLY_MS }, async () => {
    const [before] = await volumes();
    if (!wanted.aws) throw new Error("a cluster on AWS has a spec for it");
    const wal = { ...wanted.aws.wal, throughputMibps: 250, iops: 4000 };
    wanted = { ...wanted, aws: { ...wanted.aws, wal } };
    const plan = await driver.plan(wanted, { ...options, purpose: "apply" });
    expect(plan.findings.filter((each) => each.severity === "error")).toEqual([]);
    expect(plan.summary).toMatchObject({ create: 0, replace: 0, delete: 0 });
    const volume = plan.changes.find((change) => change.type === "aws_ebs_volume");
    expect(volume).toMatchObject({ action: "update" });
    expect(volume?.attributes).toContainEqual({ name: "throughput", before: "125", after: "250" });
    await driver.apply(wanted, plan.id, options);
    const [after] = await volumes();
    expect(after?.VolumeId).toBe(before?.VolumeId);
    expect([after?.Throughput, after?.Iops]).toEqual([250, 4000]);
  });

  test("shows changes by hand, and undoes them", { timeout: APPLY_MS }, async () => {
    const [volume] = await volumes();
    const VolumeId = volume?.VolumeId;
    await ec2.send(new ModifyVolumeCommand({ VolumeId, Throughput: 500 }));
    const group = await groupOf(CLUSTER, "brokers");
    const role = await holeIn(group);

    const drift = await driver.drift(wanted, options);
    const changed = (address: string) =>
      drift.changes.find((change) => change.address === address)?.attributes;
    expect(drift.changes.find(({ type }) => type === "aws_ebs_volume")).toMatchObject({
      action: "update",
      attributes: [{ name: "throughput", before: "250", after: "500" }],
    });
    expect(changed("aws_security_group.brokers_group")).toEqual([
      { name: "ingress", before: null, after: "tcp 22-22 0.0.0.0/0" },
      { name: "egress", before: null, after: "all 0.0.0.0/0" },
    ]);
    expect(changed("aws_iam_role.role-0_role")).toEqual([
      { name: "inline_policy", before: null, after: "theirs" },
      {
        name: "managed_policy_arns",
        before: null,
        after: expect.stringMatching(/:policy\/everything$/),
      },
    ]);

    const plan = await driver.plan(wanted, { ...options, purpose: "apply" });
    expect(plan.findings.filter((each) => each.severity === "error")).toEqual([]);
    expect(plan.summary).toEqual({ create: 0, update: 3, replace: 0, delete: 0, import: 0 });
    expect(plan.diff).toContain('throughput: "500" → "250"');
    expect(plan.diff).toContain('ingress: "tcp 22-22 0.0.0.0/0" → (none)');
    await driver.apply(wanted, plan.id, options);
    expect((await volumes())[0]?.Throughput).toBe(250);
    const { ingress, egress } = await openIn(group);
    expect([...ingress, ...egress]).toEqual([]);
    const [inline, attached] = await Promise.all([
      iam.send(new ListRolePoliciesCommand({ RoleName: role })),
      iam.send(new ListAttachedRolePoliciesCommand({ RoleName: role })),
    ]);
    expect(inline.PolicyNames).toEqual(["slot"]);
    expect(attached.AttachedPolicies).toEqual([]);
    expect(isEmptyPlan(await driver.drift(wanted, options))).toBe(true);
    await driver.waitReady(wanted, { timeoutMs: 60_000 });
  });

  test("a lost folder is restored from the database", { timeout: PLAN_MS }, async () => {
    await rm(join(home, "terraform", CLUSTER), { recursive: true });
    expect(await driver.observe(wanted)).toBe("ready");
    const plan = await driver.plan(wanted, { ...options, purpose: "apply" });
    expect(plan.diff).toBe("No changes.\n");
  });

  test("resources missing from the state are found and imported", {
    timeout: APPLY_MS,
  }, async () => {
    // Neither the file nor the database know anything: the worst that can be lost.
    await rm(join(home, "terraform", CLUSTER), { recursive: true });
    states.saved.length = 0;
    const [before] = await volumes();
    // A run that is killed after it made a group, before it closed it, leaves AWS's own first rule.
    const group = await groupOf(CLUSTER, "endpoints");
    const everything = { IpProtocol: "-1", IpRanges: [{ CidrIp: "0.0.0.0/0" }] };
    const IpPermissions = [everything];
    await ec2.send(new AuthorizeSecurityGroupEgressCommand({ GroupId: group, IpPermissions }));
    const plan = await driver.plan(wanted, { ...options, purpose: "apply" });
    expect(plan.summary).toMatchObject({ replace: 0, delete: 0 });
    expect(plan.summary.import).toBeGreaterThan(30);
    expect(plan.diff).toContain('egress: "all 0.0.0.0/0" → (none)');
    // What the slots may do is not on record either, and is not taken from brokers that run.
    expect(plan.diff).not.toContain("inline_policy");
    await driver.apply(wanted, plan.id, options);
    expect((await openIn(group)).egress).toEqual([]);
    const all = await volumes();
    expect(all.map((volume) => volume.VolumeId)).toEqual([before?.VolumeId]);
    expect((await driver.plan(wanted, { ...options, purpose: "apply" })).diff).toBe(
      "No changes.\n",
    );
  });

  test("is deleted with its data kept", { timeout: APPLY_MS }, async () => {
    const plan = await driver.plan(wanted, { ...options, purpose: "destroy" });
    expect(plan.changes.filter((change) => /volume|bucket|kms/.test(change.type))).toEqual([]);
    await driver.apply(wanted, plan.id, options);
    expect(await volumes()).toHaveLength(1);
    expect(await driver.isDestroyed(CLUSTER)).toBe(false);
    expect(revoked).toBe(1);
  });

  test("is purged with its objects, and nothing is left", { timeout: APPLY_MS }, async () => {
    const Bucket = await dataBucket(moto.endpoint);
    // It rejects requests without TLS, such as this test's.
    await s3.send(new DeleteBucketPolicyCommand({ Bucket }));
    for (const Key of ["a", "b/c"]) await s3.send(new PutObjectCommand({ Bucket, Key, Body: "x" }));
    const plan = await driver.plan(wanted, { ...options, purpose: "purge" });
    expect(plan.summary.delete).toBeGreaterThan(3);
    expect(plan.findings.filter((each) => each.severity === "error")).toEqual([]);
    await driver.apply(wanted, plan.id, options);
    expect(await driver.isDestroyed(CLUSTER)).toBe(true);
    expect(await leftOf(moto.endpoint, CLUSTER)).toEqual([]);
    expect(await readdir(join(home, "terraform"))).not.toContain(CLUSTER);
    expect(await driver.observe(wanted)).toBe("absent");
  });
});

async function dataBucket(endpoint: string): Promise<string> {
  const left = await leftOf(endpoint, CLUSTER);
  const arn = left.find((each) => each.startsWith("arn:aws:s3:::"));
  if (arn === undefined) throw new Error(`no bucket of account ${ACCOUNT_ID}`);
  return arn.slice("arn:aws:s3:::".length);
}
