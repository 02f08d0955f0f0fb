/** Where API, worker and other gateways call brokers: HTTP/1.1 on the internal network, with the gateways' token. */
import { createHash, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { GatewayIdentity, GatewayRepository, LinkHolder } from "@millrace/db";
import { type BrokerSlot, isId } from "@millrace/domain";
import type { Logger } from "pino";
import { ANSWER_HEAD_MS_MAX, CALL_HEADER_BYTES_MAX, CALLS_MAX } from "./bounds.ts";
import { callBroker } from "./broker-call.ts";
import { answerError, CallError } from "./call-error.ts";
import { FORWARDED_HEADER, Forwarder } from "./forwarded-call.ts";
import { inTime } from "./link-ledger.ts";
import type { Links } from "./links.ts";

const BROKER_PATH = /^\/v1\/clusters\/([^/?]+)\/brokers\/(\d{1,9})(\/.*)$/s;
/** Longer than callers keep idle connections, so that none is closed under a request. */
const IDLE_MS_MAX = 65_000;

export interface CallServerOptions {
  readonly token: string;
  /** Set once the gateway listens. */
  readonly identity: GatewayIdentity;
  readonly gateways: GatewayRepository;
  readonly links: Links;
  /** Whether brokers can connect. */
  readonly isReady: () => boolean;
  readonly logger: Logger;
}

export class CallServer {
  readonly #options: CallServerOptions;
  readonly #tokenHash: Buffer;
  readonly #forwarder: Forwarder;
  readonly #server: Server;
  #calls = 0;

  constructor(options: CallServerOptions) {
    this.#options = options;
    this.#tokenHash = sha256(options.token);
    this.#forwarder = new Forwarder(options.token);
    this.#server = createServer({
      maxHeaderSize: CALL_HEADER_BYTES_MAX,
      requestTimeout: ANSWER_HEAD_MS_MAX,
      keepAliveTimeout: IDLE_MS_MAX,
    });
    this.#server.on("request", (request, response) => void this.#answer(request, response));
  }

  /** The port. */
  async listen(host: string, port: number): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, host, resolve);
    });
    return (this.#server.address() as AddressInfo).port;
  }

  /** Cuts off what is still under way. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    this.#forwarder.close();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url === "/healthz") {
      const isReady = this.#options.isReady();
      response.writeHead(isReady ? 200 : 503, { "content-type": "text/plain" });
      response.end(isReady ? "ok\n" : "brokers cannot connect\n");
      return;
    }
    this.#calls += 1;
    try {
      this.#assertAllowed(request);
      await this.#call(request, response);
    } catch (error) {
      if (error instanceof CallError) return answerError(response, error);
      this.#options.logger.error({ err: error, url: request.url }, "a call failed");
      answerError(response, new CallError("BROKER_DISCONNECTED", "The gateway failed."));
    } finally {
      this.#calls -= 1;
    }
  }

  #assertAllowed({ headers }: IncomingMessage): void {
    const [, token = ""] = /^Bearer (.+)$/i.exec(headers.authorization ?? "") ?? [];
    if (!timingSafeEqual(sha256(token), this.#tokenHash)) {
      throw new CallError("UNAUTHORIZED", "Send the gateways' token: Authorization: Bearer ….");
    }
    if (this.#calls > CALLS_MAX) {
      throw new CallError("BROKER_BUSY", `The gateway has ${CALLS_MAX} calls: try again later.`);
    }
  }

  async #call(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, clusterId = "", brokerId, path = ""] = BROKER_PATH.exec(request.url ?? "") ?? [];
    if (!isId("clu", clusterId)) {
      throw new CallError("NOT_FOUND", "Call /v1/clusters/{id}/brokers/{number}/….");
    }
    const slot: BrokerSlot = { clusterId, brokerId: Number(brokerId) };
    const link = this.#options.links.find(slot);
    if (link !== undefined) return callBroker(link, path, request, response);
    const holder = await this.#holderOf(slot);
    const { gateway } = holder ?? {};
    const isElsewhere = gateway !== undefined && gateway.id !== this.#options.identity.id;
    if (!isElsewhere || request.headers[FORWARDED_HEADER] !== undefined) throw absent(holder);
    await this.#forwarder.forward(gateway.internalUrl, request, response);
  }

  async #holderOf(slot: BrokerSlot): Promise<LinkHolder | undefined> {
    try {
      return await inTime(this.#options.gateways.holderOf(slot));
    } catch (cause) {
      const message =
        "The broker is not connected here, and the gateway's database does not answer.";
      throw new CallError("BROKER_NOT_CONNECTED", message, cause);
    }
  }
}

function absent(holder: LinkHolder | undefined): CallError {
  const since = holder
    ? `has not been connected since ${holder.lastHeardAt.toISOString()}`
    : "has never been connected";
  return new CallError("BROKER_NOT_CONNECTED", `The broker ${since}.`);
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
