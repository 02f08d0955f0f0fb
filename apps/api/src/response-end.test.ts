import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, test } from "vitest";
import { cutUnwritten } from "./response-end.ts";

/** Serves one answer to a caller that does not read it. */
async function unread(listener: RequestListener) {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  socket.on("error", () => undefined);
  await once(socket, "connect");
  socket.pause();
  socket.write("GET / HTTP/1.1\r\nHost: api\r\n\r\n");
  const [, response] = await once(server, "request");
  const close = () => {
    socket.destroy();
    server.close();
  };
  return { response, close };
}

test("an answer that nobody reads is cut", async () => {
  const { response, close } = await unread((_request, answer) => {
    cutUnwritten(answer, 50);
    // More than the sockets of this machine hold.
    answer.end(Buffer.alloc(64 * 1024 * 1024));
  });
  await once(response, "close");
  expect(response.writableFinished).toBe(false);
  close();
});

test("an answer that was written keeps its connection", async () => {
  const { response, close } = await unread((_request, answer) => {
    cutUnwritten(answer, 50);
    answer.end("small");
  });
  if (!response.closed) await once(response, "close");
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(response.writableFinished).toBe(true);
  expect(response.req.socket.destroyed).toBe(false);
  close();
});
