/** What the API of the stack takes for a client's address: its own setting, with requests as they come on AWS. */
import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { clientAddress, TrustedProxies } from "../../apps/api/src/client-address.ts";
import { synthesizeControlPlane } from "../src/stacks/control-plane/control-plane-stack.ts";
import { CONTROL_PLANE } from "./control-plane-fixture.ts";
import { OFFLINE, resource, type StackDocument } from "./stack-fixture.ts";

const stack: StackDocument = JSON.parse(synthesizeControlPlane(CONTROL_PLANE, OFFLINE));

/** The API's own `MILLRACE_TRUSTED_PROXIES`. */
function proxies(): TrustedProxies {
  const text = String(resource(stack, "aws_ecs_task_definition", "api_task").container_definitions);
  const containers: { name: string; environment: { name: string; value: string }[] }[] =
    JSON.parse(text);
  const api = containers.find(({ name }) => name === "api");
  return new TrustedProxies(
    api?.environment.find(({ name }) => name === "MILLRACE_TRUSTED_PROXIES")?.value,
  );
}

const CLIENT = "203.0.113.9";
const BALANCER = "10.90.1.1";
const CONSOLE = "10.90.4.7";

test.each([
  ["the load balancer", BALANCER, `6.6.6.6, ${CLIENT}`],
  ["the load balancer, through the proxy in the task", "127.0.0.1", `6.6.6.6, ${CLIENT}`],
  ["the same, of a proxy that names its peer", "127.0.0.1", `6.6.6.6, ${CLIENT}, ${BALANCER}`],
  ["the console", CONSOLE, `6.6.6.6, ${CLIENT}, ${BALANCER}`],
  ["the console, both behind proxies", "127.0.0.1", `6.6.6.6, ${CLIENT}, 127.0.0.1, ${CONSOLE}`],
  ["a proxy on IPv6", "::1", `6.6.6.6, ${CLIENT}`],
])("a client is known by its own address behind %s", (_, peer, forwarded) => {
  const headers = new Headers({ "x-forwarded-for": forwarded });
  const incoming = { socket: { remoteAddress: peer } } as IncomingMessage;
  expect(clientAddress(headers, incoming, proxies())).toBe(CLIENT);
});
