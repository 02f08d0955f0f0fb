/** What the control plane's stack says to its gateways, as the program reads it. */
import { expect, test } from "vitest";
import { readEnv } from "../../apps/gateway/src/env.ts";
import { synthesizeControlPlane } from "../src/stacks/control-plane/control-plane-stack.ts";
import { CONTROL_PLANE } from "./control-plane-fixture.ts";
import { OFFLINE, resource, type StackDocument } from "./stack-fixture.ts";

interface Container {
  readonly name: string;
  readonly environment: readonly { readonly name: string; readonly value: string }[];
  readonly secrets: readonly { readonly name: string }[];
}

/** Values of secrets, by the names of the variables. */
const SECRETS: Readonly<Record<string, string>> = {
  DATABASE_URL: "postgres://millrace_gateway:x@database/millrace",
  MILLRACE_GATEWAY_TOKEN: "t".repeat(43),
};

test("gateways take links from the load balancer only, and each is reached by its own address", () => {
  const stack: StackDocument = JSON.parse(synthesizeControlPlane(CONTROL_PLANE, OFFLINE));
  const text = String(
    resource(stack, "aws_ecs_task_definition", "gateway_task").container_definitions,
  );
  const containers: Container[] = JSON.parse(text);
  const gateway = containers.find(({ name }) => name === "gateway");
  const plain = (gateway?.environment ?? []).map(({ name, value }) => [name, value]);
  const secret = (gateway?.secrets ?? []).map(({ name }) => [name, SECRETS[name]]);
  const env = readEnv(Object.fromEntries([...plain, ...secret]), ["10.90.4.7"]);
  expect(env).toMatchObject({
    tlsFile: undefined,
    listen: { host: "0.0.0.0", port: 4100 },
    internalUrl: "http://10.90.4.7:4101",
    databaseUrl: SECRETS.DATABASE_URL,
    token: SECRETS.MILLRACE_GATEWAY_TOKEN,
  });
});
