import { GetInstanceProfileCommand } from "@aws-sdk/client-iam";
import { KMSClient } from "@aws-sdk/client-kms";
import { ResourceGroupsTaggingAPIClient } from "@aws-sdk/client-resource-groups-tagging-api";
import { defaultAwsSpec } from "@millrace/domain";
import { beforeEach, describe, expect, test } from "vitest";
import { answering } from "../../test/answering.ts";
import { FakeEc2, type FakeResource } from "../../test/fake-ec2.ts";
import { FakeWorkspace } from "../../test/fake-workspace.ts";
import { driverOptions } from "../../test/moto.ts";
import { type ClusterDeployment, ProvisionError } from "../cluster-driver.ts";
import { AwsAccount, type AwsClients } from "./aws-account.ts";
import { lastDeployment, StackRun } from "./stack-run.ts";

const WANTED: ClusterDeployment = {
  ...{ clusterId: "clu_a", organizationId: "org_a", environmentId: "env_a", name: "orders" },
  ...{ region: "eu-central-1", size: "small", brokers: 1, paused: false, labels: {} },
  aws: { ...defaultAwsSpec("small"), zones: ["eu-central-1a"] },
  placement: { host: "none", kafkaPort: 9092, adminPort: 9200 },
  walCapacityBytes: 8 * 1024 ** 3,
  properties: {},
};
const VOLUME = "aws_ebs_volume.wal-0_volume";
const recordedVolume = { address: VOLUME, type: "aws_ebs_volume", attributes: { id: "vol-1" } };

let workspace: FakeWorkspace;
let ec2: FakeEc2;
/** Whether the slot's instance profile exists. */
let hasProfile = false;

/** Nothing but what `ec2` has exists in this account. */
class EmptyAccount extends AwsAccount {
  override async clients(): Promise<AwsClients> {
    const absent = Object.assign(new Error("absent"), { name: "NotFound" });
    const nothing = { send: () => Promise.reject(absent) };
    const profile = { InstanceProfile: { InstanceProfileName: "slot-0" } };
    const profiles = {
      send: (command: unknown) =>
        command instanceof GetInstanceProfileCommand
          ? Promise.resolve(profile)
          : Promise.reject(absent),
    };
    const iam = hasProfile ? profiles : nothing;
    const clients = { autoScaling: nothing, elb: nothing, iam, logs: nothing };
    const others = { route53: nothing, s3: nothing, secrets: nothing, ec2: ec2.client };
    const kms = answering(KMSClient, () => ({}));
    const tagging = answering(ResourceGroupsTaggingAPIClient, () => ({}));
    return { ...clients, ...others, kms, tagging } as unknown as AwsClients;
  }
}

function runOf(deployment: ClusterDeployment = WANTED): StackRun {
  const { without: _, endpoint: __, ...settings } = driverOptions("/", "http://localhost").account;
  const account = new EmptyAccount(settings);
  const session = { variables: {} };
  return new StackRun({
    ...{ workspace: workspace.real, deployment, account, session, secondLookMs: 1 },
  });
}

function exists(...resources: FakeResource[]): void {
  ec2 = new FakeEc2(resources);
}

beforeEach(() => {
  workspace = new FakeWorkspace();
  exists();
  hasProfile = false;
});

function grown(sizeGib: number): ClusterDeployment {
  const { aws } = WANTED;
  if (aws === undefined) throw new Error("on AWS");
  return { ...WANTED, aws: { ...aws, wal: { ...aws.wal, sizeGib } } };
}

describe("what a cluster was made", () => {
  const size = WANTED.aws?.wal.sizeGib ?? 0;

  beforeEach(async () => {
    workspace.planned = [{ address: VOLUME, type: "aws_ebs_volume", actions: ["update"] }];
    const plan = await runOf().plan("apply");
    await runOf().apply(plan.id);
  });

  test("is what the next change is compared with, not what was asked for and never made", async () => {
    await runOf(grown(size + 100)).plan("apply");
    // Nobody approved that; what stands can be asked for again.
    const plan = await runOf().plan("apply");
    await runOf().apply(plan.id);
    expect((await lastDeployment(workspace.real))?.aws?.wal.sizeGib).toBe(size);
  });

  test("is what it was where an apply failed, and the new one where it succeeded", async () => {
    const plan = await runOf(grown(size + 100)).plan("apply");
    workspace.applyFailure = new ProvisionError("apply_failed", "no");
    await expect(runOf(grown(size + 100)).apply(plan.id)).rejects.toThrow("no");
    expect((await lastDeployment(workspace.real))?.aws?.wal.sizeGib).toBe(size);
    workspace.applyFailure = undefined;
    await runOf(grown(size + 100)).apply(plan.id);
    await expect(runOf().plan("apply")).rejects.toMatchObject({ code: "config" });
  });
});

test("a cluster that was asked for and never made is known for its purge", async () => {
  await runOf().plan("apply");
  expect((await lastDeployment(workspace.real))?.clusterId).toBe("clu_a");
});

describe("a sweep", () => {
  test("takes on record, removes and leaves", async () => {
    workspace.resources = [recordedVolume];
    exists(
      { id: "vol-1", address: VOLUME, state: "in-use" },
      { id: "vol-2", address: VOLUME, state: "available" },
      { id: "subnet-9", address: "aws_subnet.of-an-older-spec" },
      { id: "vpc-1", address: "aws_vpc.network_vpc" },
    );
    const { imported, removed, left } = await runOf().sweep();
    expect(imported).toEqual([{ id: "vpc-1", address: "aws_vpc.network_vpc" }]);
    expect(removed).toEqual([{ id: "subnet-9", address: "aws_subnet.of-an-older-spec" }]);
    expect(left).toEqual([{ id: "vol-2", address: VOLUME }]);
    expect(ec2.changes).toEqual(["DeleteSubnet subnet-9"]);
  });

  test("finds a volume at its second look, before another is made", async () => {
    const vpc = { id: "vpc-1", address: "aws_vpc.network_vpc" };
    workspace.resources = [{ ...vpc, type: "aws_vpc", attributes: { id: vpc.id } }];
    exists(vpc);
    let looks = 0;
    // Tags of what was made a moment ago are not found yet; a look asks for them twice.
    ec2.onLook = () => {
      looks += 1;
      if (looks === 3) ec2.resources.push({ id: "vol-1", address: VOLUME });
    };
    expect((await runOf().sweep()).imported).toEqual([{ id: "vol-1", address: VOLUME }]);
  });

  test("leaves no folder of a cluster that is gone, and a folder with a plan as it is", async () => {
    await runOf().sweep();
    expect(workspace.commands).toEqual(["remove"]);
    workspace.commands.length = 0;
    workspace.planned = [{ address: VOLUME, type: "aws_ebs_volume", actions: ["create"] }];
    await runOf().plan("apply");
    await runOf().sweep();
    expect(workspace.commands).not.toContain("remove");
  });
});

describe("a purge", () => {
  test("that is repeated after it succeeded removes the folder that was left", async () => {
    const plan = await runOf().plan("purge");
    const name = `plans/${plan.id}.json`;
    const record = workspace.files.get(name);
    await runOf().apply(plan.id);
    // The worker was killed between the two.
    workspace.files.set(name, { ...(record as object), applied: true });
    workspace.commands.length = 0;
    await runOf().apply(plan.id);
    expect(workspace.commands).toEqual(["remove"]);
  });

  test("takes a second volume with it", async () => {
    exists({ id: "vol-2", address: VOLUME, state: "available" });
    workspace.resources = [recordedVolume];
    const plan = await runOf().plan("purge");
    workspace.resources = [recordedVolume];
    // What is deleted is gone at the next look.
    await runOf()
      .apply(plan.id)
      .catch(() => {});
    expect(ec2.changes).toContain("DeleteVolume vol-2");
  });
});

test("consumers are let go before their endpoint service is deleted", async () => {
  exists({ id: "vpce-svc-1", address: "aws_vpc_endpoint_service.s", connected: ["vpce-a"] });
  const type = "aws_vpc_endpoint_service";
  const address = `${type}.private-link_service`;
  workspace.resources = [{ address, type, attributes: { id: "vpce-svc-1" } }];
  workspace.planned = [{ address, type, actions: ["delete"], id: "vpce-svc-1" }];
  const plan = await runOf().plan("destroy");
  await runOf().apply(plan.id);
  expect(ec2.changes).toEqual(["RejectVpcEndpointConnections vpce-svc-1"]);
  const said = workspace.commands.indexOf("say 1 PrivateLink connections were ended");
  expect(said).toBeGreaterThan(-1);
  expect(workspace.commands.indexOf("apply destroy")).toBeGreaterThan(said);
});

test("no stack of a cluster breaks a rule, whatever its plan shows", async () => {
  for (const purpose of ["apply", "pause", "destroy", "purge"] as const) {
    const { findings } = await runOf().plan(purpose);
    expect(findings.filter(({ severity }) => severity === "error")).toEqual([]);
  }
});

describe("what an interrupted creation left tainted", () => {
  const taintedVolume = { ...recordedVolume, isTainted: true };
  const taintedVpc = {
    ...{ address: "aws_vpc.network_vpc", type: "aws_vpc", isTainted: true },
    attributes: { id: "vpc-1" },
  };

  test("is kept where it holds data, and made anew where it does not", async () => {
    workspace.resources = [taintedVolume, taintedVpc];
    await runOf().plan("apply");
    const untainted = workspace.commands.filter((command) => command.startsWith("untaint"));
    expect(untainted).toEqual([`untaint ${VOLUME}`]);
    expect(workspace.commands.indexOf(untainted[0] ?? "")).toBeLessThan(
      workspace.commands.indexOf("plan"),
    );
  });

  test("goes with the rest in a purge", async () => {
    workspace.resources = [taintedVolume];
    await runOf().plan("purge");
    expect(workspace.commands.filter((command) => command.startsWith("untaint"))).toEqual([]);
  });
});

test("an instance profile is found although its role, on record, has the same name", async () => {
  hasProfile = true;
  const role = "aws_iam_role.role-0_role";
  workspace.resources = [
    recordedVolume,
    { address: role, type: "aws_iam_role", attributes: { id: "slot-0" } },
  ];
  exists({ id: "vol-1", address: VOLUME });
  await runOf().plan("apply");
  expect(workspace.commands).toContain("say found 1 resources that are not on record");
});
