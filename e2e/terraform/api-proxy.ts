/** Stands between Terraform and the API: counts what passes, and calls back before it is answered. */
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { credentials } from "../product.ts";

/** Decides about an answer that has come from the API: false loses it on the way. */
export type OnAnswer = (call: string, status: number) => boolean | Promise<boolean>;

export class ApiProxy {
  readonly #server: Server;
  /** Method and path of every request that came, in order. */
  readonly calls: string[] = [];
  onAnswer: OnAnswer = () => true;

  private constructor() {
    this.#server = createServer((asked, answer) => this.#pass(asked, answer));
  }

  static async start(): Promise<ApiProxy> {
    const proxy = new ApiProxy();
    await once(proxy.#server.listen(0, "127.0.0.1"), "listening");
    return proxy;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  #pass(asked: IncomingMessage, answer: ServerResponse): void {
    const call = `${asked.method} ${asked.url}`;
    this.calls.push(call);
    const { hostname, port } = new URL(credentials.apiUrl);
    const { method, url: path, headers } = asked;
    const onward = request({ hostname, port, method, path, headers }, (reply) => {
      void this.#settle(call, reply, answer);
    });
    onward.on("error", () => answer.destroy());
    answer.on("close", () => onward.destroy());
    asked.pipe(onward);
  }

  async #settle(call: string, reply: IncomingMessage, answer: ServerResponse): Promise<void> {
    const status = reply.statusCode ?? 502;
    if (await this.onAnswer(call, status)) {
      answer.writeHead(status, reply.headers);
      reply.pipe(answer);
    } else {
      reply.resume();
      answer.destroy();
    }
  }
}
