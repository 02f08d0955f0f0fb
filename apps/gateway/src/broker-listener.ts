/** Where brokers ask for a link: TLS and HTTP/1.1, until the connection is upgraded. */
import { createHash, randomUUID } from "node:crypto";
import { createServer as createPlainServer, type IncomingMessage, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { Server as TlsServer } from "node:tls";
import type { GatewayRepository } from "@millrace/db";
import {
  type BrokerSlot,
  LINK_HEADERS,
  LINK_PATH,
  LINK_PROTOCOL,
  linkCredentialIn,
  TokenBuckets,
} from "@millrace/domain";
import type { Logger } from "pino";
import {
  BROKER_TEXT_MAX,
  HANDSHAKE_CONNECTIONS_MAX,
  HANDSHAKE_MS_MAX,
  LINK_REQUEST_BYTES_MAX,
  LINKS_MAX,
  SIGN_INS_MAX,
  SLOT_LINKS,
} from "./bounds.ts";
import { Link } from "./link.ts";
import { inTime } from "./link-ledger.ts";
import type { Links } from "./links.ts";

/** Why a broker gets no link. */
class Refused extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const STATUS_TEXTS: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  404: "Not Found",
  503: "Service Unavailable",
};
const SWITCHING = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${LINK_PROTOCOL}\r\n\r\n`;
/** What a broker says about itself: versions, random ids. */
const BROKER_TEXT = new RegExp(`^[\\w.+-]{1,${BROKER_TEXT_MAX}}$`);

export interface BrokerListenerOptions {
  /** Certificate with its chain, and key; undefined where a load balancer ends TLS. */
  readonly pem: string | undefined;
  readonly gateways: GatewayRepository;
  readonly links: Links;
  /** Told of each new link, after it is in `links`. */
  readonly onLink: (link: Link) => void;
  readonly logger: Logger;
}

export class BrokerListener {
  readonly #options: BrokerListenerOptions;
  readonly #server: Server;
  readonly #slotLinks = new TokenBuckets(SLOT_LINKS, 2 * LINKS_MAX);
  /** Connections that are no links yet, by the address of their other end: TLS shows us another object than TCP. */
  readonly #handshakes = new Set<string>();
  #signIns = 0;
  #isDraining = false;

  constructor(options: BrokerListenerOptions) {
    this.#options = options;
    const { pem } = options;
    const bounds = {
      headersTimeout: HANDSHAKE_MS_MAX,
      requestTimeout: HANDSHAKE_MS_MAX,
      connectionsCheckingInterval: 1_000,
      maxHeaderSize: LINK_REQUEST_BYTES_MAX,
    };
    const tls = {
      ...{ cert: pem, key: pem, minVersion: "TLSv1.2" as const, ALPNProtocols: ["http/1.1"] },
      handshakeTimeout: HANDSHAKE_MS_MAX,
    };
    this.#server =
      pem === undefined ? createPlainServer(bounds) : createTlsServer({ ...tls, ...bounds });
    this.#server.on("connection", (socket: Socket) => this.#admit(socket));
    this.#server.on("request", (_request, response) => {
      const headers = { "content-type": "text/plain", connection: "close", upgrade: LINK_PROTOCOL };
      response.writeHead(426, headers).end(`Only brokers connect here, at ${LINK_PATH}.\n`);
    });
    this.#server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      void this.#upgrade(request, socket as Socket, head);
    });
  }

  /** The port. */
  async listen(host: string, port: number): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, host, resolve);
    });
    return (this.#server.address() as AddressInfo).port;
  }

  /** For connections from now on. */
  setCertificate(pem: string): void {
    if (!(this.#server instanceof TlsServer)) return;
    this.#server.setSecureContext({ cert: pem, key: pem, minVersion: "TLSv1.2" });
  }

  /** Takes no connections any more; those that ask for a link meanwhile are refused. */
  drain(): void {
    this.#isDraining = true;
    this.#server.close();
  }

  #admit(socket: Socket): void {
    if (this.#handshakes.size >= HANDSHAKE_CONNECTIONS_MAX) {
      socket.destroy();
      return;
    }
    const peer = peerOf(socket);
    this.#handshakes.add(peer);
    socket.once("close", () => this.#handshakes.delete(peer));
  }

  async #upgrade(request: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    socket.on("error", () => socket.destroy());
    socket.setTimeout(HANDSHAKE_MS_MAX, () => socket.destroy());
    try {
      const { slot, secretHash } = await this.#signIn(request, head);
      const info = {
        ...slot,
        secretHash,
        linkId: randomUUID(),
        ...this.#describe(request, socket),
      };
      // HTTP/2 may take the socket over only when nothing is being written to it.
      await new Promise((resolve) => socket.write(SWITCHING, resolve));
      if (socket.destroyed) return;
      socket.setTimeout(0);
      socket.setNoDelay(true);
      const link = await Link.on(socket, info);
      this.#handshakes.delete(peerOf(socket));
      if (this.#isDraining) return link.end("the gateway stops");
      this.#options.links.add(link);
      this.#options.onLink(link);
    } catch (error) {
      if (error instanceof Refused) refuse(socket, error);
      else {
        this.#options.logger.warn({ err: error, from: socket.remoteAddress }, "no link was made");
        socket.destroy();
      }
    }
  }

  async #signIn(
    request: IncomingMessage,
    head: Buffer,
  ): Promise<{ slot: BrokerSlot; secretHash: Uint8Array<ArrayBuffer> }> {
    if (request.url !== LINK_PATH) throw new Refused(404, `Links are made at ${LINK_PATH}.`);
    if (request.headers.upgrade !== LINK_PROTOCOL || head.length > 0) {
      throw new Refused(400, `This gateway speaks ${LINK_PROTOCOL} and nothing before its answer.`);
    }
    const credential = linkCredentialIn(request.headers.authorization);
    if (credential === undefined)
      throw new Refused(401, "Send the slot's credential: Bearer mlk_…");
    if (this.#isDraining) throw new Refused(503, "The gateway stops: connect again.");
    const secretHash = new Uint8Array(createHash("sha256").update(credential).digest());
    const slot = await this.#slotOf(secretHash);
    const { headers } = request;
    if (slot === undefined) throw new Refused(401, "The credential is unknown or was revoked.");
    if (
      headers[LINK_HEADERS.cluster] !== slot.clusterId ||
      headers[LINK_HEADERS.broker] !== String(slot.brokerId)
    ) {
      throw new Refused(401, "The credential is that of another broker.");
    }
    this.#assertRoom(slot);
    return { slot, secretHash };
  }

  async #slotOf(secretHash: Uint8Array<ArrayBuffer>): Promise<BrokerSlot | undefined> {
    if (this.#signIns >= SIGN_INS_MAX) {
      throw new Refused(503, "Too many brokers connect at this moment: try again.");
    }
    this.#signIns += 1;
    try {
      return await inTime(this.#options.gateways.slotOf(secretHash));
    } catch {
      throw new Refused(503, "The gateway's database does not answer: try again.");
    } finally {
      this.#signIns -= 1;
    }
  }

  #assertRoom(slot: BrokerSlot): void {
    const { links } = this.#options;
    if (links.isFull && links.find(slot) === undefined) {
      throw new Refused(503, `The gateway has ${LINKS_MAX} links: try another one.`);
    }
    if (!this.#slotLinks.take(`${slot.clusterId} ${slot.brokerId}`).taken) {
      throw new Refused(503, "The broker connects too often: try again in a few seconds.");
    }
  }

  #describe({ headers }: IncomingMessage, socket: Socket) {
    const brokerVersion = String(headers[LINK_HEADERS.version] ?? "");
    const brokerStart = String(headers[LINK_HEADERS.brokerStart] ?? "");
    if (!BROKER_TEXT.test(brokerVersion) || !BROKER_TEXT.test(brokerStart)) {
      throw new Refused(400, "Millrace-Version and Millrace-Broker-Start are missing or too long.");
    }
    return { brokerVersion, brokerStart, remoteAddress: socket.remoteAddress ?? "" };
  }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

function refuse(socket: Socket, { status, message }: Refused): void {
  if (socket.destroyed) return;
  const body = `${message}\n`;
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_TEXTS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
