import { once } from "node:events";
import type { Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { listen } from "./http-server.ts";

let server: Server;
let port: number;
/** Answers `/slow`. */
let answerSlow: (answer: Response) => void;

beforeAll(async () => {
  server = listen({
    fetch: (request) =>
      request.url.endsWith("/slow")
        ? new Promise((resolve) => {
            answerSlow = resolve;
            server.emit("slow");
          })
        : new Response(String(request.url.length)),
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

/** A connection, and all that it has received until the server closes it. */
function open(): { socket: Socket; received: Promise<string> } {
  const socket = connect(port, "127.0.0.1").setEncoding("utf8");
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk;
  });
  // A server that closes before it has read all resets the connection; its answer has come by then.
  socket.on("error", () => {});
  return { socket, received: once(socket, "close").then(() => text) };
}

/** What the server answers to these bytes, until it closes. */
async function send(bytes: string): Promise<{ head: string; body: string }> {
  const { socket, received } = open();
  socket.write(bytes);
  const [head = "", body = ""] = (await received).split("\r\n\r\n");
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

const keepAlive = (path: string) => `GET ${path} HTTP/1.1\r\nHost: api\r\n\r\n`;
const tooLong = keepAlive(`/v1/clusters?name=${"n".repeat(65 * 1024)}`);

test("a connection that has served a request gets the refusal of the next one", async () => {
  const { socket, received } = open();
  socket.write(keepAlive("/"));
  await once(socket, "data");
  socket.write(tooLong);
  expect((await received).match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 431"]);
});

test("a refusal never takes the place of the answer to an earlier request", async () => {
  const { socket, received } = open();
  const started = once(server, "slow");
  socket.write(keepAlive("/slow"));
  await started;
  socket.write(tooLong);
  expect(await received).toBe("");
  answerSlow(new Response("late"));
});

test("a request whose body is broken is refused, and its handler's answer is not sent", async () => {
  const started = once(server, "slow");
  const head = "POST /slow HTTP/1.1\r\nHost: api\r\nTransfer-Encoding: chunked\r\n\r\n";
  const sent = send(`${head}not a length\r\n`);
  await started;
  const { head: refused, body } = await sent;
  answerSlow(new Response("late"));
  expect(refused).toMatch(/^HTTP\/1\.1 400 /);
  expect(JSON.parse(body)).toMatchObject({ code: "validation_failed" });
});

test("what is no HTTP request is refused with problem details", async () => {
  const { head, body } = await send("\u0016\u0003\u0001 hello\r\n\r\n");
  expect(head).toMatch(/^HTTP\/1\.1 400 /);
  expect(JSON.parse(body)).toMatchObject({ status: 400, code: "validation_failed" });
});
