/**
 * What the control plane's stack says to the worker, and what becomes of it in a cluster's stack: through the
 * container's environment, the worker's settings and the account's.
 */
import { expect, test } from "vitest";
import { readEnv } from "../../apps/worker/src/env.ts";
import { AwsAccount } from "../../packages/provisioner/src/aws/aws-account.ts";
import { stackSpec } from "../../packages/provisioner/src/aws/stack-spec.ts";
import { awsDeployment } from "../../packages/provisioner/test/moto.ts";
import { synthesizeCluster } from "../src/index.ts";
import { synthesizeControlPlane } from "../src/stacks/control-plane/control-plane-stack.ts";
import type { ControlPlaneSpec } from "../src/stacks/control-plane/spec.ts";
import { CONTROL_PLANE } from "./control-plane-fixture.ts";
import { type Attributes, OFFLINE, resource, type StackDocument } from "./stack-fixture.ts";

const DATABASE_URL = "postgres://localhost/millrace";
const placement = {
  allocate: async () => ({ host: "b0.test.internal", kafkaPort: 9092, adminPort: 9644 }),
};

/** The worker's settings in an installation with this spec. */
function workerOf(change: Partial<ControlPlaneSpec>) {
  const stack: StackDocument = JSON.parse(
    synthesizeControlPlane({ ...CONTROL_PLANE, ...change }, OFFLINE),
  );
  const task = resource(stack, "aws_ecs_task_definition", "worker_task");
  const containers = JSON.parse(String(task.container_definitions)) as {
    readonly name: string;
    readonly environment: readonly { readonly name: string; readonly value: string }[];
    readonly secrets: readonly { readonly name: string }[];
  }[];
  const worker = containers.find(({ name }) => name === "worker");
  const plain = (worker?.environment ?? []).map(({ name, value }) => [name, value]);
  const secret = (worker?.secrets ?? []).map(({ name }) => [name, "a secret"]);
  const { aws } = readEnv({ ...Object.fromEntries([...plain, ...secret]), DATABASE_URL });
  if (aws === undefined) throw new Error("the worker has no account");
  return aws;
}

async function clusterOf(change: Partial<ControlPlaneSpec>): Promise<StackDocument> {
  const account = new AwsAccount(workerOf(change));
  const { settings, accountId } = account;
  const deployment = await awsDeployment(placement, "clu_01JD0000000000000000000003");
  const spec = stackSpec(deployment, "running", { ...settings, accountId });
  return JSON.parse(synthesizeCluster(spec, OFFLINE));
}

async function alarmsOf(change: Partial<ControlPlaneSpec>): Promise<Attributes[]> {
  const { resource: resources } = await clusterOf(change);
  return Object.values(resources.aws_cloudwatch_metric_alarm ?? {});
}

test("clusters' instances get the AMI that the installation was given", async () => {
  const amiId = "ami-0aaaaaaaaaaaaaaaa";
  const template = resource(await clusterOf({ amiId }), "aws_launch_template");
  expect(template.image_id).toBe(amiId);
});

test("clusters' alarms notify the topics that the installation was given", async () => {
  const alarmTopicArns = ["first", "second"].map(
    (name) => `arn:aws:sns:${CONTROL_PLANE.region}:${CONTROL_PLANE.accountId}:${name}`,
  );
  const alarms = await alarmsOf({ alarmTopicArns });
  expect(alarms.length).toBeGreaterThan(0);
  for (const { alarm_actions, ok_actions } of alarms) {
    expect(alarm_actions).toEqual(alarmTopicArns);
    expect(ok_actions).toEqual(alarmTopicArns);
  }
  for (const { alarm_actions } of await alarmsOf({ alarmTopicArns: [] })) {
    expect(alarm_actions ?? []).toEqual([]);
  }
});
