import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { recordPeerAddresses } from "./peer-address.ts";

test("what a client claims stands before the address it has", async () => {
  recordPeerAddresses();
  const seen: IncomingMessage["headers"][] = [];
  const server = createServer((request, response) => {
    seen.push(request.headers);
    response.end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await fetch(url, { headers: { "x-forwarded-for": "6.6.6.6" } });
  await fetch(url);
  server.close();
  expect(seen.map((headers) => headers["x-forwarded-for"])).toEqual([
    "6.6.6.6, 127.0.0.1",
    "127.0.0.1",
  ]);
});
