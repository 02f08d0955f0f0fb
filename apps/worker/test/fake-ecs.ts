import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** ECS and its agent: it protects a task for as long as the task asks. */
export class FakeEcs {
  readonly asked: [method: unknown, url: unknown, enabled: boolean, rest: unknown][] = [];
  refuses = false;
  /** How many of the next requests fail. */
  failures = 0;
  protectedTask = false;
  readonly #server: Server;

  constructor() {
    this.#server = createServer(async (request, response) => {
      let body = "";
      for await (const chunk of request) body += String(chunk);
      const { ProtectionEnabled: on, ...rest } = JSON.parse(body);
      this.asked.push([request.method, request.url, on, rest]);
      if (this.failures > 0) {
        this.failures -= 1;
        response.writeHead(500).end(JSON.stringify({ error: { Code: "ServerException" } }));
        return;
      }
      if (this.refuses) {
        response.end(JSON.stringify({ failure: { Reason: "TASK_NOT_VALID" } }));
        return;
      }
      this.protectedTask = on;
      response.end(JSON.stringify({ protection: { ProtectionEnabled: on } }));
    });
  }

  async start(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/api/task`;
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
