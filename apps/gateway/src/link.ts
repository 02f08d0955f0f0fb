/**
 * One broker's link: HTTP/2 on a connection that the broker made, on which it serves and we are the client. The end of the
 * connection, a broker that does not answer pings, and `end` all end the link once; it never comes back.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type OutgoingHttpHeaders,
} from "node:http2";
import type { Duplex } from "node:stream";
import type { BrokerSlot } from "@millrace/domain";
import {
  ANSWER_HEADER_BYTES_MAX,
  HANDSHAKE_MS_MAX,
  LINK_MEMORY_MB_MAX,
  LINK_WINDOW_BYTES,
  PING_ANSWER_MS_MAX,
  PING_INTERVAL_MS,
  STREAM_WAIT_MS_MAX,
  STREAM_WINDOW_BYTES,
  STREAMS_PER_LINK_MAX,
  WAITING_PER_LINK_MAX,
} from "./bounds.ts";
import { CallError } from "./call-error.ts";

/** What a broker said about itself when it asked for the link. */
export interface LinkInfo extends BrokerSlot {
  /** New for each connection. */
  readonly linkId: string;
  readonly secretHash: Uint8Array<ArrayBuffer>;
  readonly remoteAddress: string;
  readonly brokerVersion: string;
  readonly brokerStart: string;
}

export class Link {
  readonly info: LinkInfo;
  readonly #session: ClientHttp2Session;
  readonly #madeAt = performance.now();
  readonly #whenEnded: Promise<string>;
  #resolveEnded: (reason: string) => void = () => {};
  #lastHeard = performance.now();
  #active = 0;
  readonly #waiting: (() => void)[] = [];
  #endReason: string | undefined;
  #isDraining = false;
  #pingTimer: NodeJS.Timeout | undefined;

  private constructor(info: LinkInfo, session: ClientHttp2Session) {
    this.info = info;
    this.#session = session;
    this.#whenEnded = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    session.on("error", (error) => this.end(error.message));
    session.on("close", () => this.end("the broker closed the connection"));
    // Calls under way may still be answered. The broker connects again for new ones.
    session.on("goaway", () => this.drain());
  }

  /** Speaks HTTP/2 on the socket; rejects where the broker does not, within `HANDSHAKE_MS_MAX`. */
  static async on(socket: Duplex, info: LinkInfo): Promise<Link> {
    const session = connect("http://broker", {
      createConnection: () => socket,
      maxSessionMemory: LINK_MEMORY_MB_MAX,
      settings: {
        enablePush: false,
        initialWindowSize: STREAM_WINDOW_BYTES,
        maxHeaderListSize: ANSWER_HEADER_BYTES_MAX,
      },
    });
    const link = new Link(info, session);
    const timer = setTimeout(() => link.end("the broker does not speak HTTP/2"), HANDSHAKE_MS_MAX);
    const settled = new Promise<void>((resolve) => session.once("remoteSettings", () => resolve()));
    const failure = await Promise.race([settled, link.#whenEnded]);
    clearTimeout(timer);
    if (failure !== undefined) throw new Error(failure);
    session.setLocalWindowSize(LINK_WINDOW_BYTES);
    link.#schedulePing();
    return link;
  }

  get ageMs(): number {
    return performance.now() - this.#madeAt;
  }

  /** Time since the broker's last sign of life. */
  get silentMs(): number {
    return performance.now() - this.#lastHeard;
  }

  /** Whether new calls may go over it. */
  get isOpen(): boolean {
    return this.#endReason === undefined && !this.#isDraining;
  }

  get hasEnded(): boolean {
    return this.#endReason !== undefined;
  }

  /** Settles with the reason once the connection has ended. */
  get whenEnded(): Promise<string> {
    return this.#whenEnded;
  }

  /**
   * Sends the head of a request. The caller closes the stream, and calls `release` exactly once when it is closed.
   *
   * @throws CallError `BROKER_BUSY` where the link has no stream to spare in time, `BROKER_NOT_CONNECTED` where it has
   * ended before. The broker has seen nothing of the request then.
   */
  async request(headers: OutgoingHttpHeaders, endStream: boolean): Promise<ClientHttp2Stream> {
    await this.#place();
    if (!this.isOpen) {
      this.release();
      throw new CallError("BROKER_NOT_CONNECTED", "The broker's connection has just ended.");
    }
    try {
      return this.#session.request(headers, { endStream });
    } catch (cause) {
      this.release();
      throw new CallError("BROKER_NOT_CONNECTED", "The broker's connection has just ended.", cause);
    }
  }

  /** Gives back the place of a stream that `request` returned. */
  release(): void {
    this.#active -= 1;
    this.#waiting.shift()?.();
  }

  /** Notes that the broker has sent something. */
  heard(): void {
    this.#lastHeard = performance.now();
  }

  /** Takes no new calls and closes the connection after those that are under way. */
  drain(): void {
    if (!this.isOpen) return;
    this.#isDraining = true;
    this.#wakeAll();
    this.#session.close();
  }

  /** Cuts the connection. */
  end(reason: string): void {
    if (this.#endReason !== undefined) return;
    this.#endReason = reason;
    clearTimeout(this.#pingTimer);
    this.#wakeAll();
    this.#session.destroy();
    this.#resolveEnded(reason);
  }

  /** Waits until the link has a stream to spare, and takes it. */
  async #place(): Promise<void> {
    const limit = Math.min(
      STREAMS_PER_LINK_MAX,
      this.#session.remoteSettings?.maxConcurrentStreams ?? STREAMS_PER_LINK_MAX,
    );
    if (this.#active < limit) {
      this.#active += 1;
      return;
    }
    const busy = () =>
      new CallError("BROKER_BUSY", `${limit} calls to the broker are under way: try again later.`);
    if (this.#waiting.length >= WAITING_PER_LINK_MAX) throw busy();
    await new Promise<void>((resolve, reject) => {
      const wake = () => {
        clearTimeout(timer);
        this.#active += 1;
        resolve();
      };
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(wake), 1);
        reject(busy());
      }, STREAM_WAIT_MS_MAX);
      this.#waiting.push(wake);
    });
  }

  /** They find out that the link takes no more calls. */
  #wakeAll(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  #schedulePing(): void {
    this.#pingTimer = setTimeout(() => this.#ping(), PING_INTERVAL_MS);
  }

  #ping(): void {
    if (this.#endReason !== undefined) return;
    // Its end is reported only once the connection is closed, and until then a ping would throw.
    if (this.#session.destroyed) {
      this.end("the connection has ended");
      return;
    }
    const overdue = () => this.end(`no answer to a ping for ${PING_ANSWER_MS_MAX} ms`);
    this.#pingTimer = setTimeout(overdue, PING_ANSWER_MS_MAX);
    const isSent = this.#session.ping((error) => {
      clearTimeout(this.#pingTimer);
      if (this.#endReason !== undefined) return;
      if (error) return this.end(error.message);
      this.heard();
      this.#schedulePing();
    });
    if (!isSent) this.end("too many pings without an answer");
  }
}
