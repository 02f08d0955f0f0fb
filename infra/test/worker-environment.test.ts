/**
 * What the control plane's stack says to the worker, and what becomes of it in a cluster's stack: through the
 * container's environment, the worker's settings and the account's.
 */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readEnv } from "../../apps/worker/src/env.ts";
import { AwsAccount } from "../../packages/provisioner/src/aws/aws-account.ts";
import { stackAccount, stackSpec } from "../../packages/provisioner/src/aws/stack-spec.ts";
import { awsDeployment } from "../../packages/provisioner/test/moto.ts";
import { synthesizeCluster } from "../src/index.ts";
import { synthesizeControlPlane } from "../src/stacks/control-plane/control-plane-stack.ts";
import { linkDomain } from "../src/stacks/control-plane/names.ts";
import type { ControlPlaneSpec } from "../src/stacks/control-plane/spec.ts";
import { CONTROL_PLANE } from "./control-plane-fixture.ts";
import {
  type Attributes,
  OFFLINE,
  reference,
  resource,
  type StackDocument,
} from "./stack-fixture.ts";

const DATABASE_URL = "postgres://localhost/millrace";
const placement = {
  allocate: async () => ({ host: "b0.test.internal", kafkaPort: 9092 }),
};

const LINK_SERVICE = "com.amazonaws.vpce.eu-central-1.vpce-svc-0123456789abcdef0";

/** A value of the stack as it is once the endpoint service exists. */
function known(value: string): string {
  const name = "aws_vpc_endpoint_service.links_service_service.service_name";
  return value === reference(name) ? LINK_SERVICE : value;
}

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
  const plain = (worker?.environment ?? []).map(({ name, value }) => [name, known(value)]);
  const secret = (worker?.secrets ?? []).map(({ name }) => [name, "a secret"]);
  const { aws } = readEnv({ ...Object.fromEntries([...plain, ...secret]), DATABASE_URL });
  if (aws === undefined) throw new Error("the worker has no account");
  return aws;
}

async function clusterOf(change: Partial<ControlPlaneSpec>): Promise<StackDocument> {
  const account = new AwsAccount(workerOf(change));
  const deployment = await awsDeployment(placement, "clu_01JD0000000000000000000003");
  const spec = stackSpec(deployment, "running", stackAccount(account, deployment));
  return JSON.parse(synthesizeCluster(spec, OFFLINE));
}

async function alarmsOf(change: Partial<ControlPlaneSpec>): Promise<Attributes[]> {
  const { resource: resources } = await clusterOf(change);
  return Object.values(resources.aws_cloudwatch_metric_alarm ?? {});
}

test("the worker knows where its image has the authorities of databases", () => {
  const dockerfile = readFileSync(new URL("../images/Dockerfile", import.meta.url), "utf8");
  expect(dockerfile).toContain(`global-bundle.pem ${workerOf({}).databaseCa}\n`);
});

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

test("clusters' brokers dial the gateways, by a name of their certificate, in the zones that they are in", async () => {
  const cluster = await clusterOf({ zones: ["eu-central-1b", "eu-central-1c"] });
  const endpoint = resource(cluster, "aws_vpc_endpoint", "control-link_endpoint");
  expect(endpoint.service_name).toBe(LINK_SERVICE);
  // The only slot is in the first zone, where the gateways are not.
  expect(endpoint.subnet_ids).toEqual([reference("aws_subnet.network_subnet-1.id")]);
  const zone = resource(cluster, "aws_route53_zone", "control-link_names_zone");
  expect(zone.name).toMatch(/^[a-z2-7]{10}\.link\.millrace\.example\.com$/);
  expect(linkDomain(CONTROL_PLANE)).toBe("link.millrace.example.com");
  expect(workerOf({}).gateways.url).toBe("http://gateway:4101");
});
