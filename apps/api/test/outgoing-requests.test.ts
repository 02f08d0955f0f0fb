/** What requests to tenants' addresses do over real TLS; which addresses are refused is tested beside the code. */

import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { OutgoingRequestRefused, OutgoingRequests } from "@millrace/auth";
import { selfSigned } from "@millrace/testkit";
import { afterAll, beforeEach, expect, test } from "vitest";

const { certificate: ca, key } = await selfSigned();
const asked: IncomingMessage[] = [];
let answer: (response: ServerResponse) => void;
const server = createServer({ cert: ca, key }, (request, response) => {
  asked.push(request);
  answer(response);
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
const { port } = server.address() as AddressInfo;
const url = `https://localhost:${port}/metadata`;
const LOOPBACK = [{ address: "127.0.0.1", family: 4 }];
let resolutions: string[];
const resolve = async (hostname: string) => {
  resolutions.push(hostname);
  // A second answer would lead somewhere else.
  return resolutions.length === 1 ? LOOPBACK : [{ address: "10.0.0.1", family: 4 }];
};
const options = { ca, allowedAddresses: ["127.0.0.1"], resolve };

beforeEach(() => {
  asked.length = 0;
  resolutions = [];
  answer = (response) => response.setHeader("content-type", "application/json").end('{"a":1}');
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await once(server, "close");
});

test("the name is resolved once, and the connection goes to the address that was checked", async () => {
  const request = { method: "POST", headers: { "x-test": "1" }, body: "a=b" };
  const sent = await new OutgoingRequests(options).send(url, request);
  expect([sent.status, await sent.json()]).toEqual([200, { a: 1 }]);
  expect(resolutions).toEqual(["localhost"]);
  expect(asked.map(({ method, headers }) => [method, headers.host, headers["x-test"]])).toEqual([
    ["POST", `localhost:${port}`, "1"],
  ]);
});

test("an address that the installation has not allowed gets no connection", async () => {
  const sent = new OutgoingRequests({ ca, resolve }).send(url, {});
  await expect(sent).rejects.toThrow(
    "localhost has an address that is not on the public Internet.",
  );
  expect(asked).toEqual([]);
});

test("a certificate that nobody vouches for is refused", async () => {
  const sent = new OutgoingRequests({ ...options, ca: (await selfSigned()).certificate }).send(
    url,
    {},
  );
  await expect(sent).rejects.toMatchObject({ code: expect.stringMatching(/CERT|SELF_SIGNED/) });
  expect(asked).toEqual([]);
});

test("a redirect is not followed", async () => {
  answer = (response) =>
    response.writeHead(302, { location: `https://localhost:${port}/inside` }).end();
  const sent = new OutgoingRequests(options).send(url, {});
  await expect(sent).rejects.toThrow("redirect, which is not followed");
  expect(asked).toHaveLength(1);
});

test("an answer without end is cut", async () => {
  answer = (response) => {
    const chunk = Buffer.alloc(64 * 1024);
    const write = () => response.write(chunk, (error) => error ?? write());
    write();
  };
  const sent = new OutgoingRequests(options).send(url, {});
  await expect(sent).rejects.toThrow("more than 65536 bytes");
});

test.each([
  ["no answer", () => {}],
  ["half an answer", (response: ServerResponse) => void response.write("{")],
])("%s has a deadline", async (_, half) => {
  answer = half;
  const sent = new OutgoingRequests({ ...options, timeoutMs: 300 }).send(url, {});
  await expect(sent).rejects.toThrow("did not answer within 300 ms");
  await expect(sent).rejects.toThrow(OutgoingRequestRefused);
});

test("a name that is never resolved has a deadline", async () => {
  const never = () => new Promise<never>(() => {});
  const sent = new OutgoingRequests({ ...options, resolve: never, timeoutMs: 100 }).send(url, {});
  await expect(sent).rejects.toThrow("not resolved in time");
});
