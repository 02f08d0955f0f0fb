/**
 * A new version of a service whose tasks do not start. ECS acts as its documentation says: there are two
 * deployments for a while, then the circuit breaker goes back to the version before, and the service is steady.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { EcsCluster } from "@cdktn/provider-aws/lib/ecs-cluster/index.js";
import { Subnet } from "@cdktn/provider-aws/lib/subnet/index.js";
import { Vpc } from "@cdktn/provider-aws/lib/vpc/index.js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FargateService } from "../../src/constructs/fargate-service/fargate-service.ts";
import { synthesize } from "../../src/synth.ts";
import { SPEC } from "../stack-fixture.ts";
import { HAS_TERRAFORM, TerraformFolder } from "./terraform-folder.ts";

const MOTO = process.env.MILLRACE_MOTO ?? "";
const START_SECONDS_MAX = 60;
/** Whom the emulator takes unknown credentials for. */
const EMULATED_ACCOUNT = "123456789012";
/** Answers to "how is the service" before the circuit breaker acts. */
const LOOKS_BEFORE_ROLLBACK = 2;

interface Description {
  readonly services: { taskDefinition: string; deployments: unknown[] }[];
}

/** What stands before the emulator, whose ECS replaces tasks at once and never fails. */
class CircuitBreaker {
  /** Whether tasks of the next version fail. */
  failing = false;
  #present = "";
  #rolledBackTo: string | undefined;
  #looks = 0;

  /** One answer of the emulator's ECS: the same, or what AWS would say. */
  rewrite(operation: string, answer: string): string {
    if (operation === "UpdateService") {
      this.#rolledBackTo = this.failing ? this.#present : undefined;
      this.#looks = 0;
    }
    if (operation !== "DescribeServices") return answer;
    const description = JSON.parse(answer) as Description;
    const [service] = description.services;
    if (service === undefined) return answer;
    if (this.#rolledBackTo === undefined) this.#present = service.taskDefinition;
    else if (this.#looks++ < LOOKS_BEFORE_ROLLBACK) {
      service.deployments.push(...service.deployments);
    } else service.taskDefinition = this.#rolledBackTo;
    return JSON.stringify(description);
  }
}

describe.skipIf(!HAS_TERRAFORM || MOTO === "")("a version of a service that does not start", () => {
  const breaker = new CircuitBreaker();
  let moto: ChildProcess;
  let front: Server;
  let endpoint: string;
  let folder: TerraformFolder;

  beforeAll(async () => {
    const port = await freePort();
    const emulator = `http://127.0.0.1:${port}`;
    // One task of each service runs.
    const env = { ...process.env, MOTO_ECS_SERVICE_RUNNING: "1" };
    moto = spawn(MOTO, ["-H", "127.0.0.1", "-p", String(port)], { stdio: "ignore", env });
    for (let waited = 0; !(await fetch(emulator).catch(() => undefined)); waited += 1) {
      if (waited > START_SECONDS_MAX) throw new Error(`${MOTO} did not start on ${emulator}`);
      await sleep(1_000);
    }
    front = createServer((request, response) => {
      pass(emulator, breaker, request, response).catch((error) => response.destroy(error));
    }).listen(0, "127.0.0.1");
    await once(front, "listening");
    endpoint = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
    folder = await TerraformFolder.open(version("first"));
  }, 200_000);

  afterAll(async () => {
    folder?.close();
    front?.closeAllConnections();
    front?.close();
    if (moto?.exitCode !== null) return;
    const exited = once(moto, "exit");
    moto.kill("SIGKILL");
    await exited;
  });

  /** The stack of one service with an image. */
  function version(image: string): string {
    const place = { region: SPEC.region, accountId: EMULATED_ACCOUNT };
    // Of a namespace that only AWS has.
    const without = ["aws_ecs_service.service_connect_configuration"];
    return synthesize("test", place, { endpoint, without }, (scope) => {
      const vpc = new Vpc(scope, "vpc", { cidrBlock: "10.90.0.0/20" });
      const subnet = new Subnet(scope, "subnet", { vpcId: vpc.id, cidrBlock: "10.90.0.0/22" });
      const role = `arn:aws:iam::${EMULATED_ACCOUNT}:role/any`;
      new FargateService(
        scope,
        "worker",
        {
          ...{
            prefix: "mr-main",
            region: SPEC.region,
            logGroup: "/tasks",
            namespaceArn: "arn:none",
          },
          clusterArn: new EcsCluster(scope, "tasks", { name: "mr-main" }).arn,
          ...{ vpcId: vpc.id, subnetIds: [subnet.id], executionRoleArn: role },
        },
        {
          ...{ name: "worker", image, cpu: 256, memoryMib: 512, taskRoleArn: role },
          ...{ environment: {}, secrets: {}, tasks: 1, single: true },
        },
      );
    });
  }

  const apply = (image: string) => {
    folder.write(version(image));
    return folder.run("apply", "-auto-approve", "-input=false", "-no-color");
  };

  test("fails the apply, although the service is steady again, and is tried again by the next", async () => {
    expect(await apply("first")).toMatchObject({ code: 0 });

    breaker.failing = true;
    const failed = await apply("second");
    expect(failed.output).toContain("The new tasks of worker failed, and ECS went back");
    expect(failed.code).toBe(1);

    breaker.failing = false;
    const repeated = await apply("second");
    expect(repeated.output).toMatch(/aws_ecs_service\.worker_service: Modif/);
    expect(repeated.code).toBe(0);
    expect((await apply("second")).output).toContain("No changes");
  }, 900_000);
});

/** Sends a request on, and gives ECS's answers to the circuit breaker. */
async function pass(
  emulator: string,
  breaker: CircuitBreaker,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const headers = new Headers();
  for (const name of ["authorization", "content-type", "x-amz-target", "x-amz-date"]) {
    const value = request.headers[name];
    if (typeof value === "string") headers.set(name, value);
  }
  const method = request.method ?? "GET";
  const body = chunks.length === 0 ? {} : { body: Buffer.concat(chunks) };
  const answer = await fetch(`${emulator}${request.url}`, { method, headers, ...body });
  const target = headers.get("x-amz-target") ?? "";
  const text = await answer.text();
  response.writeHead(answer.status, {
    "content-type": answer.headers.get("content-type") ?? "application/json",
  });
  const operation = target.startsWith("AmazonEC2ContainerService") ? target.split(".")[1] : "";
  response.end(answer.ok ? breaker.rewrite(operation ?? "", text) : text);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
