import { GetInstanceProfileCommand } from "@aws-sdk/client-iam";
import { KMSClient } from "@aws-sdk/client-kms";
import { ResourceGroupsTaggingAPIClient } from "@aws-sdk/client-resource-groups-tagging-api";
import { defaultAwsSpec } from "@millrace/domain";
import { beforeEach, describe, expect, test } from "vitest";
import { answering } from "../../test/answering.ts";
import { FakeEc2, type FakeResource } from "../../test/fake-ec2.ts";
import { FakeWorkspace } from "../../test/fake-workspace.ts";
import { driverOptions } from "../../test/moto.ts";
import type { RunOptions } from "../change-plan.ts";
import { type ClusterDeployment, ProvisionError } from "../cluster-driver.ts";
import { AwsAccount, type AwsClients } from "./aws-account.ts";
import { lastDeployment } from "./deployment-files.ts";
import { StackRun } from "./stack-run.ts";

const WANTED: ClusterDeployment = {
  ...{ clusterId: "clu_a", organizationId: "org_a", environmentId: "env_a", name: "orders" },
  ...{
    region: "eu-central-1",
    size: "small",
    brokers: 1,
    paused: false,
    plaintextListener: true,
    labels: {},
  },
  aws: { ...defaultAwsSpec("small"), zones: ["eu-central-1a"] },
  placement: { host: "none", kafkaPort: 9092 },
  walCapacityBytes: 8 * 1024 ** 3,
  properties: {},
};
const VOLUME = "aws_ebs_volume.wal-0_volume";
const PORT_22 = "tcp 22-22 0.0.0.0/0";
const recordedVolume = { address: VOLUME, type: "aws_ebs_volume", attributes: { id: "vol-1" } };

let workspace: FakeWorkspace;
let ec2: FakeEc2;
/** Whether the slot's instance profile exists. */
let hasProfile = false;
let heldMsMax: number;
/** Of every key that is asked for. */
let keyPolicy: object;

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
    const kms = answering(KMSClient, () => ({
      KeyMetadata: { KeyManager: "CUSTOMER" },
      Policy: JSON.stringify(keyPolicy),
    }));
    const tagging = answering(ResourceGroupsTaggingAPIClient, () => ({}));
    return { ...clients, ...others, kms, tagging } as unknown as AwsClients;
  }
}

function runOf(
  deployment: ClusterDeployment = WANTED,
  options: Pick<RunOptions, "signal" | "onDestroying"> = {},
): StackRun {
  const { without: _, endpoint: __, ...settings } = driverOptions("/", "http://localhost").account;
  const account = new EmptyAccount(settings);
  const session = options;
  return new StackRun({
    ...{ workspace: workspace.real, deployment, account, session, secondLookMs: 1 },
    held: { msMax: heldMsMax, pauseMs: 1 },
  });
}

function exists(...resources: FakeResource[]): void {
  ec2 = new FakeEc2(resources);
}

beforeEach(() => {
  workspace = new FakeWorkspace();
  exists();
  hasProfile = false;
  heldMsMax = 60_000;
  keyPolicy = {};
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

test("instances that the account's default key of EBS would keep from starting are not planned, nor paid for", async () => {
  const key = "arn:aws:kms:eu-central-1:123456789012:key/1";
  ec2.defaultKey = key;
  keyPolicy = { Version: "2012-10-17", Statement: [] };
  await expect(runOf().plan("apply")).rejects.toMatchObject({ code: "config" });
  expect(workspace.commands).not.toContain("plan");
  // Without instances it is not needed.
  await runOf({ ...WANTED, paused: true }).plan("pause");
  await runOf().plan("destroy");
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

  const planned = [{ address: VOLUME, type: "aws_ebs_volume", actions: ["delete"] }];

  beforeEach(() => {
    workspace.planned = planned;
    workspace.resources = [recordedVolume];
    workspace.onDestroy = (ids) => {
      const left = ec2.resources.filter(({ id }) => !ids.includes(id));
      ec2.resources.splice(0, ec2.resources.length, ...left);
    };
  });

  test("takes a second volume with it, and a third", async () => {
    exists(
      { id: "vol-1", address: VOLUME, state: "in-use" },
      { id: "vol-2", address: VOLUME, state: "in-use" },
      { id: "vol-3", address: VOLUME, state: "available" },
    );
    const plan = await runOf().plan("purge");
    await runOf().apply(plan.id);
    // One of them is taken on record and destroyed with it, which leaves the other.
    expect(workspace.commands).toContain(`import ${VOLUME} vol-2`);
    expect(ec2.changes).toEqual(["DeleteVolume vol-3"]);
    expect(ec2.resources).toEqual([]);
    expect(workspace.commands.at(-1)).toBe("remove");
  });

  test("waits for what is held yet, in bounded time", async () => {
    exists({ id: "vol-1", address: VOLUME });
    const subnet = { id: "subnet-9", address: "aws_subnet.of-an-older-spec" };
    ec2.resources.push({ ...subnet, held: "DependencyViolation" });
    const plan = await runOf().plan("purge");
    let looks = 0;
    ec2.onLook = () => {
      looks += 1;
      // A look asks for tags twice: AWS takes a few of them until the subnet is free.
      if (looks === 10) ec2.resources.splice(0, ec2.resources.length, subnet);
    };
    await runOf().apply(plan.id);
    expect(ec2.changes).toEqual(["DeleteSubnet subnet-9"]);

    exists({ ...subnet, held: "DependencyViolation" });
    heldMsMax = 10;
    const again = await runOf().plan("purge");
    await expect(runOf().apply(again.id)).rejects.toMatchObject({ code: "apply_failed" });
  });

  describe("says that data is about to be destroyed", () => {
    let said: string[];
    const onDestroying = async () => {
      said.push([...workspace.commands, ...ec2.changes].at(-1) ?? "nothing");
    };

    beforeEach(() => {
      said = [];
    });

    test("before it touches anything, and no other plan does", async () => {
      exists({ id: "vol-1", address: VOLUME });
      workspace.planned = [];
      const kept = await runOf().plan("destroy");
      await runOf(WANTED, { onDestroying }).apply(kept.id);
      expect(said).toEqual([]);
      workspace.planned = planned;
      const plan = await runOf().plan("purge");
      await runOf(WANTED, { onDestroying }).apply(plan.id);
      expect(said).toEqual(["plan -destroy"]);
    });

    test("not where the plan is not kept here, or is refused", async () => {
      const plan = await runOf().plan("purge");
      const name = `plans/${plan.id}.json`;
      const record = workspace.files.get(name) as object;
      workspace.files.set(name, { ...record, refused: ["no"] });
      const run = () => runOf(WANTED, { onDestroying }).apply(plan.id);
      await expect(run()).rejects.toMatchObject({ code: "policy_refused" });
      workspace.files.delete(name);
      await expect(run()).rejects.toMatchObject({ code: "plan_stale" });
      expect(said).toEqual([]);
    });

    test("and destroys nothing where that cannot be recorded", async () => {
      exists({ id: "vol-1", address: VOLUME });
      const plan = await runOf().plan("purge");
      const lost = { onDestroying: () => Promise.reject(new Error("lost")) };
      await expect(runOf(WANTED, lost).apply(plan.id)).rejects.toThrow("lost");
      expect(ec2.resources).toHaveLength(1);
      expect(workspace.commands).not.toContain("apply purge");
    });
  });

  test("that is aborted deletes nothing more", async () => {
    exists({ id: "vol-1", address: VOLUME }, { id: "vol-2", address: VOLUME });
    const plan = await runOf().plan("purge");
    const aborted = new AbortController();
    workspace.onDestroy = () => {
      exists({ id: "subnet-9", address: "aws_subnet.of-an-older-spec" });
      aborted.abort();
    };
    const run = runOf(WANTED, { signal: aborted.signal }).apply(plan.id);
    await expect(run).rejects.toMatchObject({ code: "aborted" });
    expect(ec2.changes).toEqual([]);
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

test("a plan is stale once another is made", async () => {
  const first = await runOf().plan("pause");
  await runOf().plan("pause");
  await expect(runOf().apply(first.id)).rejects.toMatchObject({ code: "plan_stale" });
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

  test("is kept if it holds data, and re-created if it does not", async () => {
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

describe("what somebody added to a group or a role of the stack", () => {
  const GROUP = "aws_security_group.brokers_group";
  const ROLE = "aws_iam_role.role-0_role";
  const open = { protocol: "tcp", from_port: 22, to_port: 22, cidr_blocks: ["0.0.0.0/0"] };
  const all = { Effect: "Allow", Action: "*", Resource: "*" };
  const policy = JSON.stringify({ Version: "2012-10-17", Statement: [all] });
  const tags = Object.fromEntries(
    ["tenant", "cluster", "environment", "address"].map((tag) => [`millrace:${tag}`, "x"]),
  );
  const owned = { ...tags, "millrace:managed-by": "millrace" };

  beforeEach(() => {
    workspace.resources = [recordedVolume];
    exists({ id: "vol-1", address: VOLUME });
    workspace.read = {
      [GROUP]: { id: "sg-1", ingress: [open], tags: owned },
      [ROLE]: {
        ...{ name: "slot-0", permissions_boundary: "arn", tags: owned },
        ...{ inline_policy: [{ name: "theirs", policy }], managed_policy_arns: [] },
      },
    };
  });

  test("is in the plan, which no rule forbids, and is taken back by its apply", async () => {
    const plan = await runOf().plan("apply");
    expect(plan.findings.filter(({ severity }) => severity === "error")).toEqual([]);
    expect(plan.diff).toContain('ingress: "tcp 22-22 0.0.0.0/0" → (none)');
    expect(plan.diff).toContain('inline_policy: "theirs" → (none)');
    expect(plan.summary.update).toBe(2);
    await runOf().apply(plan.id);
    expect(ec2.changes).toEqual(["RevokeSecurityGroupIngress sg-1"]);
    expect(workspace.commands).toContain(`say taken back from ${GROUP}: ingress ${PORT_22}`);
    // Terraform itself had nothing to do.
    expect(workspace.commands).not.toContain("apply apply");
  });

  test("is taken back before Terraform begins, whatever becomes of that", async () => {
    workspace.planned = [{ address: GROUP, type: "aws_security_group", actions: ["update"] }];
    const plan = await runOf().plan("apply");
    expect(plan.changes.filter(({ address }) => address === GROUP)).toHaveLength(1);
    workspace.applyFailure = new ProvisionError("apply_failed", "no");
    await expect(runOf().apply(plan.id)).rejects.toThrow("no");
    expect(ec2.changes).toEqual(["RevokeSecurityGroupIngress sg-1"]);
    // Terraform may have made the same rule by now, as the stack's own.
    workspace.applyFailure = undefined;
    await runOf().apply(plan.id);
    expect(ec2.changes).toEqual(["RevokeSecurityGroupIngress sg-1"]);
    expect(workspace.commands.filter((command) => command === "apply apply")).toHaveLength(2);
  });

  test("goes with what is deleted, which shows no change of its own", async () => {
    workspace.planned = [
      { address: GROUP, type: "aws_security_group", actions: ["delete"] },
      { address: ROLE, type: "aws_iam_role", actions: ["delete"] },
    ];
    const plan = await runOf().plan("destroy");
    expect(plan.summary).toMatchObject({ update: 0, delete: 2 });
    await runOf().apply(plan.id);
    // A role with a policy that is not the stack's could not be deleted.
    expect(ec2.changes).toEqual(["RevokeSecurityGroupIngress sg-1"]);
  });
});
