/** A broker's admin HTTP for records, on a socket of its own: what it is asked, and what it says. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { BrokerHttp, type BrokerRecords } from "@millrace/broker-admin";

export interface AskedRecords {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly body: unknown;
}

type Answer = (response: ServerResponse, request: AskedRecords) => void;

export class RecordBroker {
  readonly asked: AskedRecords[] = [];
  /** Connections of streams that are open. */
  streams = 0;
  answer: Answer = (response) => json(response, 404, {});
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    server.on("request", (request, response) => void this.#serve(request, response));
  }

  static async start(): Promise<RecordBroker> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    return new RecordBroker(server);
  }

  get records(): BrokerRecords {
    const { port } = this.#server.address() as AddressInfo;
    return new BrokerHttp({ adminUrl: `http://127.0.0.1:${port}`, adminToken: "secret" }).records;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(incoming.url ?? "", "http://broker");
    const body = await text(incoming);
    const request = {
      method: incoming.method ?? "",
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      body: body === "" ? undefined : JSON.parse(body),
    };
    this.asked.push(request);
    if (url.pathname.endsWith("/stream")) {
      this.streams += 1;
      response.on("close", () => {
        this.streams -= 1;
      });
    }
    this.answer(response, request);
  }
}

export function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

/** One item of a stream. */
export function event(kind: string, id: string, data: unknown): string {
  return `event: ${kind}\nid: ${id}\ndata: ${JSON.stringify({ [kind]: data })}\n\n`;
}
