/** A broker as gateways see it: it connects by TLS, asks for a link, and serves HTTP/2 on the connection. */
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import {
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type TLSSocket } from "node:tls";
import { type BrokerSlot, LINK_HEADERS, LINK_PATH, LINK_PROTOCOL } from "@millrace/domain";

export type Answer = (
  stream: ServerHttp2Stream,
  headers: Readonly<Record<string, string>>,
) => void | Promise<void>;

export interface FakeBrokerOptions extends BrokerSlot {
  readonly port: number;
  readonly credential: string;
  readonly root: string;
  readonly answer?: Answer;
  /** Of the request for a link. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** The gateway's answer to a request for a link, where that is no link. */
export class NoLink extends Error {
  readonly status: number;
  constructor(status: number, text: string) {
    super(text);
    this.status = status;
  }
}

/** Asks for a link once. @throws NoLink */
export async function openLink(options: FakeBrokerOptions): Promise<TLSSocket> {
  const { port, credential, root, clusterId, brokerId } = options;
  const socket = connect({ port, host: "127.0.0.1", servername: "localhost", ca: root });
  socket.on("error", () => {});
  await Promise.race([once(socket, "secureConnect"), failed(socket)]);
  const asking = request({
    createConnection: () => socket,
    path: LINK_PATH,
    headers: {
      connection: "Upgrade",
      upgrade: LINK_PROTOCOL,
      host: "localhost",
      authorization: `Bearer ${credential}`,
      [LINK_HEADERS.cluster]: clusterId,
      [LINK_HEADERS.broker]: String(brokerId),
      [LINK_HEADERS.brokerStart]: "start-1",
      [LINK_HEADERS.version]: "0.1.0",
      ...options.headers,
    },
  });
  const sent = new Promise<void>((resolve) => asking.on("finish", () => setImmediate(resolve)));
  const upgraded = new Promise<TLSSocket>((resolve, reject) => {
    asking.on("upgrade", (_response, _socket, head) => {
      // Behind a load balancer the gateway's first bytes may come together with its answer.
      socket.unshift(head);
      resolve(socket);
    });
    asking.on("response", (response) => void refusal(response).then(reject));
    asking.on("error", reject);
  });
  asking.end();
  // HTTP/2 may take the socket over only when nothing is being written to it.
  await sent;
  return upgraded;
}

async function failed(socket: TLSSocket): Promise<never> {
  await once(socket, "close");
  throw new Error("the gateway closed the connection");
}

async function refusal(response: IncomingMessage): Promise<NoLink> {
  let text = "";
  for await (const chunk of response) text += chunk;
  return new NoLink(response.statusCode ?? 0, text);
}

export class FakeBroker {
  readonly options: FakeBrokerOptions;
  readonly #answer: Answer;
  session: ServerHttp2Session | undefined;
  socket: TLSSocket | undefined;
  /** Links that it has had. */
  connects = 0;
  #isClosed = false;

  constructor(options: FakeBrokerOptions) {
    this.options = options;
    this.#answer = options.answer ?? echo;
  }

  get isConnected(): boolean {
    return this.session !== undefined && !this.session.closed && !this.session.destroyed;
  }

  /** Makes one link. @throws NoLink */
  async connect(): Promise<this> {
    this.socket = await openLink(this.options);
    this.session = performServerHandshake(this.socket, {
      settings: { maxConcurrentStreams: 64 },
    });
    this.session.on("error", () => {});
    this.session.on("stream", (stream, headers) => {
      stream.on("error", () => {});
      void this.#answer(stream, headers as Record<string, string>);
    });
    this.connects += 1;
    return this;
  }

  /** Connects, and again as soon as the link is gone, until `close`. */
  async keepConnected(): Promise<void> {
    while (!this.#isClosed) {
      try {
        await this.connect();
        if (this.session && !this.session.destroyed) await once(this.session, "close");
      } catch {
        // As a broker does, it tries again.
      }
      if (!this.#isClosed) await sleep(50 + Math.random() * 200);
    }
  }

  cut(): void {
    this.socket?.destroy();
  }

  close(): void {
    this.#isClosed = true;
    this.session?.destroy();
    this.socket?.destroy();
  }
}

/** The ids that every answer of a broker has. */
export function idsOf(headers: Readonly<Record<string, string>>) {
  return {
    [LINK_HEADERS.cluster]: headers[LINK_HEADERS.cluster],
    [LINK_HEADERS.broker]: headers[LINK_HEADERS.broker],
  };
}

/** Tells what the broker got. */
export const echo: Answer = async (stream, headers) => {
  let body = "";
  for await (const chunk of stream) body += chunk;
  stream.respond({ ":status": 200, "content-type": "application/json", ...idsOf(headers) });
  stream.end(JSON.stringify({ headers, body }));
};
