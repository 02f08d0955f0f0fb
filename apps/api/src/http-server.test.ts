import { once } from "node:events";
import type { Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { listen } from "./http-server.ts";

let server: Server;
let port: number;

beforeAll(async () => {
  server = listen({
    fetch: (request) => new Response(String(request.url.length)),
    hostname: "127.0.0.1",
    port: 0,
  });
  await once(server, "listening");
  port = (server.address() as AddressInfo).port;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

/** What the server answers to these bytes, until it closes. */
async function send(bytes: string): Promise<{ head: string; body: string }> {
  const socket = connect(port, "127.0.0.1").setEncoding("utf8");
  let answer = "";
  socket.on("data", (chunk) => {
    answer += chunk;
  });
  // A server that closes before it has read all resets the connection; its answer has come by then.
  socket.on("error", () => {});
  socket.write(bytes);
  await once(socket, "close");
  const [head = "", body = ""] = answer.split("\r\n\r\n");
  return { head, body };
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: api\r\nConnection: close\r\n\r\n`;

test("a request line with the longest cursor and search texts is served", async () => {
  const query = `cursor=${"c".repeat(16_384)}&text=${"t".repeat(4_096)}&key=${"k".repeat(4_096)}`;
  const { head } = await send(get(`/v1/records?${query}`));
  expect(head).toContain("200 OK");
});

test("a longer one is refused with problem details", async () => {
  const { head, body } = await send(get(`/v1/clusters?name=${"n".repeat(65 * 1024)}`));
  expect(head).toMatch(/^HTTP\/1\.1 431 /);
  expect(head).toContain("Content-Type: application/problem+json");
  expect(JSON.parse(body)).toMatchObject({ status: 431, code: "headers_too_large", errors: [] });
});

test("what is no HTTP request is refused with problem details", async () => {
  const { head, body } = await send("\u0016\u0003\u0001 hello\r\n\r\n");
  expect(head).toMatch(/^HTTP\/1\.1 400 /);
  expect(JSON.parse(body)).toMatchObject({ status: 400, code: "validation_failed" });
});
